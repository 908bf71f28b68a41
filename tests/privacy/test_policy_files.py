"""Policies in experiment files, and the command that shows what was sent and spent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fedbandits as fb
from commands import Command
from fedbandits.experiments.describe import describe_experiment, describe_privacy
from fedbandits.experiments.files import read_experiment
from fedbandits.federation.audit_file import AuditFile, read_audit
from fedbandits.privacy.policy import Privacy, Quantize
from fedbandits.protocol import (
    Client,
)
from protection import (
    BERNOULLI,
    GAME,
    GAUSSIAN,
    LAPLACE,
    NEAREST,
    RADIUS,
    STOCHASTIC,
    STRICT,
    THREE_BITS,
    USER,
    assigned,
    policy,
    secret,
    seeded,
)

# Experiment files --------------------------------------------------------------------------------

FILE = """
title = "demo"
horizon = 100_000
replications = 2

[problem]
model = "approximate"
means = [0.5, 0.6, 0.9]
noise = {{ law = "bernoulli" }}
spread = {{ law = "beta", sigma = 0.02 }}

[[variants]]
{variant}
privacy = {privacy}
"""
VARIANT = 'algorithm = "fed2-ucb"\npulls = "100"\nadmissions = "2^p"'
QUANTIZE = '{ quantize = { bits = 8, rounding = "stochastic" }, range = [0, 1] }'
NOISE = '{ noise = "gaussian", epsilon = 2.0, delta = 1e-6, level = "event", range = [0, 1] }'


@pytest.mark.parametrize(
    ("table", "privacy"),
    [(QUANTIZE, STOCHASTIC), (NOISE, GAUSSIAN)],
    ids=["quantize", "noise"],
)
def test_both_forms_of_a_policy_are_read(
    table: str, privacy: Privacy, tmp_path: Path, command: Command
) -> None:
    file = tmp_path / "demo.toml"
    file.write_text(FILE.format(variant=VARIANT, privacy=table), encoding="utf-8")
    assert fb.load_experiment(file).variants[0].privacy == privacy
    done = command("check", file)
    assert (done.code, done.err) == (0, "")
    assert "fed2-ucb: fed2-ucb, fidelity clients" in done.out


DESCRIBED = [
    NEAREST,
    STOCHASTIC,
    RADIUS,
    GAUSSIAN,
    LAPLACE,
    USER,
    STRICT,
    Privacy(
        range=(-1, 2.5), quantize=Quantize(bits="radius", rounding="nearest", widening="paper")
    ),
    policy(rho=0.25, level="person", observations=4, min_pulls=25),
    policy(scale=0.5, level="user", releases=7, delta=1e-9),
]


@pytest.mark.parametrize("privacy", DESCRIBED)
def test_a_policy_that_is_described_and_read_again_is_the_same(privacy: Privacy) -> None:
    variant = fb.Variant(label="a", problem=BERNOULLI, algorithm=GAME, privacy=privacy)
    tables = describe_experiment(fb.Experiment(title="t", variants=[variant], horizon=10**4))
    assert tables["variants"][0]["privacy"] == describe_privacy(privacy)
    assert ("level" in tables["variants"][0]["privacy"]) == (privacy.noise is not None)
    read = read_experiment(json.loads(json.dumps(tables)))
    assert read.variants[0].privacy == privacy
    assert describe_experiment(read) == tables


def table(text: str, **changes: str | None) -> str:
    """Return a table of TOML, but for these keys; None leaves one out."""
    import tomllib

    keys = {key: _toml(value) for key, value in tomllib.loads(f"x = {text}")["x"].items()}
    for key, value in changes.items():
        keys.pop(key, None)
        if value is not None:
            keys[key] = value
    return "{ " + ", ".join(f"{key} = {value}" for key, value in keys.items()) + " }"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(part)}" for key, part in value.items()) + " }"
    return json.dumps(value)


BY_RADIUS = table(QUANTIZE, quantize='{ bits = "radius" }')

# The policy, what else the variant says, the key, and words of the rule and of the way out.
BAD: dict[str, tuple[str, str, str, str]] = {
    "epsilon 0": (
        table(NOISE, epsilon="0"),
        "",
        "privacy.epsilon",
        "0 is not a positive number such as 2",
    ),
    "negative epsilon": (
        table(NOISE, epsilon="-1.5"),
        "",
        "privacy.epsilon",
        "-1.5 is not a positive number such as 2",
    ),
    "epsilon nan": (table(NOISE, epsilon="nan"), "", "privacy.epsilon", "nan is not a positive"),
    "epsilon inf": (table(NOISE, epsilon="inf"), "", "privacy.epsilon", "inf is not a positive"),
    "delta 0": (
        table(NOISE, delta="0.0"),
        "",
        "privacy.delta",
        "0 is not between 0 and 1; give a small one such as 1e-6",
    ),
    "delta 1": (table(NOISE, delta="1.0"), "", "privacy.delta", "1 is not between 0 and 1; give"),
    "delta above": (table(NOISE, delta="2.5"), "", "privacy.delta", "2.5 is not between 0 and 1;"),
    "delta below": (table(NOISE, delta="-0.1"), "", "privacy.delta", "-0.1 is not between 0 and"),
    "empty range": (
        table(NOISE, range="[1, 1]"),
        "",
        "privacy.range",
        "[1, 1] is empty; give the lower end first",
    ),
    "reversed range": (
        table(QUANTIZE, range="[1, 0]"),
        "",
        "privacy.range",
        "[1, 0] is empty; give the lower end first",
    ),
    "range of nothing": (
        table(QUANTIZE, range="[]"),
        "",
        "privacy.range",
        "[] is not a pair of finite numbers such as [0, 1]",
    ),
    "no range": (table(QUANTIZE, range=None), "", "privacy.range", "is missing"),
    "endless range": (
        table(QUANTIZE, range="[0, inf]"),
        "",
        "privacy.range",
        "is not a pair of finite numbers such as [0, 1]",
    ),
    "53 bits": (
        table(QUANTIZE, quantize="{ bits = 53 }"),
        "",
        "privacy.quantize.bits",
        "53 bits; a mean takes at least 1, and a double has 52 at most: give",
    ),
    "0 bits": (
        table(QUANTIZE, quantize="{ bits = 0 }"),
        "",
        "privacy.quantize.bits",
        "0 bits; a mean takes at least 1",
    ),
    "many bits": (
        table(QUANTIZE, quantize='{ bits = "many" }'),
        "",
        "privacy.quantize.bits",
        "'many' is not a whole number such as 8, or \"radius\"",
    ),
    "half a bit": (
        table(QUANTIZE, quantize="{ bits = 0.5 }"),
        "",
        "privacy.quantize.bits",
        "0.5 is not a whole number such as 8",
    ),
    "user level without releases": (
        table(NOISE, level='"user"'),
        "",
        "privacy.releases",
        'is missing; at level "user" all releases of a client add up, so say how many',
    ),
    "0 releases": (
        table(NOISE, level='"user"', releases="0"),
        "",
        "privacy.releases",
        "0 is not a whole number from 1 to 10^15",
    ),
    "person level without observations": (
        table(NOISE, level='"person"'),
        "",
        "privacy.observations",
        'is missing; at level "person" all observations of a person are protected together, so say',
    ),
    "releases at event level": (
        table(NOISE, releases="5"),
        "",
        "privacy.releases",
        'goes with level = "user", and it is "event"; leave it out',
    ),
    "observations at user level": (
        table(NOISE, level='"user"', releases="5", observations="2"),
        "",
        "privacy.observations",
        'goes with level = "person", and it is "user"; leave it out',
    ),
    "noise and rounding": (
        table(NOISE, quantize="{ bits = 8 }"),
        "",
        "privacy.noise",
        "or quantize must be given, but not both",
    ),
    "neither": ("{ range = [0, 1] }", "", "privacy.noise", "or quantize must be given"),
    "epsilon with rounding": (
        table(QUANTIZE, epsilon="1.0"),
        "",
        "privacy.epsilon",
        "goes with noise; rounding alone is not differential privacy and has no budget: leave it",
    ),
    "level with rounding": (
        table(QUANTIZE, level='"user"'),
        "",
        "privacy.level",
        "needs noise; rounding alone protects at no level: leave it out",
    ),
    "epsilon and rho": (
        table(NOISE, rho="0.1"),
        "",
        "privacy.rho",
        "and epsilon are both budgets; give only one",
    ),
    "rho 0": (
        table(NOISE, epsilon=None, rho="0.0"),
        "",
        "privacy.rho",
        "0.0 is not a positive number such as 0.1",
    ),
    "no budget": (
        table(NOISE, epsilon=None),
        "",
        "privacy.epsilon",
        "is missing; give epsilon and delta, or rho, or the scale",
    ),
    "gaussian epsilon without delta": (
        table(NOISE, delta=None),
        "",
        "privacy.delta",
        "is missing; gaussian noise needs one, such as 1e-6",
    ),
    "unknown level": (
        table(NOISE, level='"evnt"'),
        "",
        "privacy.level",
        'did you mean "event"? (known: event, person, user)',
    ),
    "unknown noise": (
        table(NOISE, noise='"gausian"'),
        "",
        "privacy.noise",
        'did you mean "gaussian"? (known: gaussian, laplace)',
    ),
    "unknown rounding": (
        table(QUANTIZE, quantize='{ rounding = "up" }'),
        "",
        "privacy.quantize.rounding",
        "'up' is not known; known: nearest, stochastic",
    ),
    "the paper's widening with fixed bits": (
        table(QUANTIZE, quantize='{ bits = 8, widening = "paper" }'),
        "",
        "privacy.quantize.widening",
        'which is enough only if rounding errs by no more; give bits = "radius"',
    ),
    "rounding that is no table": (
        table(QUANTIZE, quantize="8"),
        "",
        "privacy.quantize",
        "8 is not a table such as { bits = 8 }",
    ),
    **{
        f"bits by the radius {rule}": (
            BY_RADIUS,
            f'radius = {{ rule = "{rule}"{more} }}',
            "privacy.quantize.bits",
            '"radius" needs a width that is known before anything is observed: use a radius of',
        )
        for rule, more in (
            ("bernstein", ", range = [0, 1]"),
            ("chernoff", ", range = [0, 1]"),
            ("paired-t", ""),
        )
    },
    "bits by the radius, spread estimated": (
        BY_RADIUS,
        'assume = { spread = "estimate" }',
        "privacy",
        "would count it twice; give a number",
    ),
    "too few pulls": (
        QUANTIZE,
        'pulls = "5"',
        "pulls",
        "5 in phase 1, and privacy.min_pulls is 10: a mean of so few gives observations away; pull",
    ),
    "too few pulls later": (
        NOISE,
        'pulls = "max(5, 20 - p)"',
        "pulls",
        "9 in phase 11, and privacy.min_pulls is 10",
    ),
    "min_pulls above pulls": (
        table(NOISE, min_pulls="200"),
        "",
        "pulls",
        "100 in phase 1, and privacy.min_pulls is 200",
    ),
    "min_pulls 0": (
        table(NOISE, min_pulls="0"),
        "",
        "privacy.min_pulls",
        "0 is not a whole number from 1",
    ),
    "noise that is to be estimated": (
        QUANTIZE,
        'assume = { noise = "estimate" }',
        "privacy",
        'assume.noise = "estimate" takes sums of squares as well; give a number',
    ),
    "ucb1": (
        NOISE,
        'algorithm = "ucb1"',
        "privacy",
        "protects what clients send, but here nobody sends anything; leave it out",
    ),
    "improved-ucb": (
        NOISE,
        'algorithm = "improved-ucb"',
        "privacy",
        "this algorithm has no such messages: use fed2-ucb or fed1-ucb",
    ),
    "centralized, slot by slot": (
        NOISE,
        'algorithm = "centralized"\nclients = 3\ncommunicate = "slot"',
        "privacy",
        "this algorithm has no such messages: use fed2-ucb or fed1-ucb",
    ),
    "centralized": (
        NOISE,
        'algorithm = "centralized"\nclients = 3',
        "pulls",
        "1 in phase 1, and privacy.min_pulls is 10",
    ),
    "a scale that exceeds the budget": (
        table(NOISE, scale="1e-4"),
        "",
        "privacy.scale",
        "in the first phase of 100 pulls, which exceeds the budget; raise either, or leave",
    ),
    "a scale that exceeds the budget of a user": (
        table(NOISE, scale="0.1", level='"user"', releases="4"),
        "",
        "privacy.scale",
        "in 4 releases of 3 means, which exceeds the budget; raise either",
    ),
    "negative scale": (
        table(NOISE, scale="-1.0"),
        "",
        "privacy.scale",
        "-1.0 is not a positive number such as 0.1",
    ),
    "a budget too small for the grid": (
        table(NOISE, epsilon="1e-8"),
        "",
        "privacy.epsilon",
        "is too small for any noise on this grid; raise it",
    ),
    "unknown key": (
        table(NOISE, epsilon=None, epsilom="2.0"),
        "",
        "privacy.epsilom",
        'is not a key here; did you mean "epsilon"?',
    ),
    "unknown key of rounding": (
        table(QUANTIZE, quantize="{ bit = 8 }"),
        "",
        "privacy.quantize.bit",
        'is not a key here; did you mean "bits"?',
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_names_the_key_the_rule_and_the_way_out(
    name: str, tmp_path: Path, command: Command
) -> None:
    privacy, more, where, words = BAD[name]
    said = [line.split(" = ")[0] for line in more.splitlines()]
    if "algorithm" in said:
        variant = more
    else:
        kept = [line for line in VARIANT.splitlines() if line.split(" = ")[0] not in said]
        variant = "\n".join([*kept, more])
    file = tmp_path / "demo.toml"
    file.write_text(FILE.format(variant=variant, privacy=privacy), encoding="utf-8")
    done = command("check", file)
    assert done.code == 2, done
    assert done.out == ""
    assert done.err.startswith(f"error: variants[0].{where}: ")
    assert words in done.err
    assert done.err.count("\n") == 1


# The command audit -------------------------------------------------------------------------------


@pytest.fixture
def audited(tmp_path: Path) -> Path:
    """Return the file of a client that has sent two updates with noise, and clipped much."""
    path = tmp_path / "alice.jsonl"
    client = Client("alice", secret, privacy=STRICT, outbox=AuditFile(path), noise=seeded())
    client.play(assigned(STRICT, (80, 80, 80)))
    client.play(assigned(STRICT, (60, 0, 60), phase=2))
    return path


def test_audit_shows_what_was_sent_and_spent(audited: Path, command: Command) -> None:
    done = command("audit", audited)
    assert (done.code, done.err) == (0, "")
    entries = read_audit(audited)
    assert "client alice" in done.out
    for entry in entries:
        for mean, n in zip(entry.means, entry.update.counts, strict=True):
            assert n == 0 or f"{mean:.4g}" in done.out
    clipped = sum(entry.clipped for entry in entries)
    assert clipped > 0
    assert f"{clipped:,} observations were outside the declared range" in done.out
    # 3 and 2 means of 64 bits.
    assert "2 updates about 360 observations, 320 bits of means" in done.out
    assert "Privacy: rho = 0.3472, epsilon = 0.8333 of 1, for one observation." in done.out


def test_audit_prints_json_and_nothing_else(audited: Path, command: Command) -> None:
    done = command("audit", audited, "--json")
    assert (done.code, done.err) == (0, "")
    said = json.loads(done.out)
    entries = read_audit(audited)
    assert [one["update"]["phase"] for one in said] == [1, 2]
    assert [bytes.fromhex(one["update"]["packed"]) for one in said] == [
        entry.update.packed for entry in entries
    ]
    assert [one["means"] for one in said] == [list(entry.means) for entry in entries]
    assert [one["clipped"] for one in said] == [entry.clipped for entry in entries]
    assert [one["update"]["clipped"] for one in said] == [0, 0]


def test_audit_of_a_client_without_a_policy_says_so(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "bob.jsonl"
    many = Client("bob", secret, outbox=AuditFile(path))
    many.play(assigned(None, (20,) * 9))
    done = command("audit", path)
    assert done.code == 0
    assert "3 more" in done.out
    assert "no observation left the client" in done.out
    assert "576 bits of means" in done.out  # 9 of 64
    assert "the client has no policy; means were sent as the server asked" in done.out
    assert "outside the declared range" not in done.out


def test_audit_says_where_a_mean_was_the_observation(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "bob.jsonl"
    Client("bob", secret, outbox=AuditFile(path)).play(assigned(None, (20, 1, 0)))
    done = command("audit", path)
    assert "1 of the means is of a single pull, which is an observation." in done.out
    assert "no observation left" not in done.out


def test_audit_of_rounded_means_says_that_they_are_not_private(
    tmp_path: Path, command: Command
) -> None:
    path = tmp_path / "bob.jsonl"
    Client("bob", secret, privacy=THREE_BITS, outbox=AuditFile(path)).play(assigned(THREE_BITS))
    done = command("audit", path)
    assert done.code == 0
    assert "16 bits of means" in done.out
    assert "Privacy: rounded; no differential privacy, and no budget." in done.out


def test_audit_of_an_empty_file(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"")
    done = command("audit", path)
    assert (done.code, done.out, done.err) == (0, f"{path}: nothing was sent\n", "")
    done = command("audit", path, "--json")
    assert (done.code, json.loads(done.out)) == (0, [])


def test_audit_of_no_file_and_of_another_kind_of_file(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "a.toml"
    done = command("audit", path)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"error: {path}: cannot be read: No such file or directory\n"
    for content in (b'title = "demo"\n', b"{}\n", b"\xff\xfe\n", b"\n", b"3\n"):
        path.write_bytes(content)
        done = command("audit", path)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"error: {path}, line 1: is not an entry of an audit file")
        assert done.err.count("\n") == 1
