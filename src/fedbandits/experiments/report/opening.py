"""In short: what came out, in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from fedbandits.experiments.report.problem_sections import ProblemGroup
from fedbandits.report.chart import NORMAL_95
from fedbandits.report.markup import bold, items
from fedbandits.report.wording import ROUNDING, in_words, listed
from fedbandits.simulation import Simulation
from fedbandits.simulation.fidelities import Fidelity
from fedbandits.simulation.tables import chose_best, quantity

_FEW = 10


def opening(games: Sequence[ProblemGroup], replications: int) -> str:
    """Return what came out, in plain words."""
    parts = []
    for game in games:
        # Totals of different problems do not compare.
        named = f"<b>Problem “{escape(game.key)}”.</b> " if len(games) > 1 else ""
        sentences = " ".join(_comparison(game.simulations))
        parts.append(f"<p>{named}{sentences}</p>\n{_endings(game.simulations)}")
    if replications == 1:
        parts.append(
            "<p>This is one replication: how much of it is chance cannot be said. Run more of them"
            " before drawing conclusions.</p>"
        )
    else:
        few = f" With {replications} replications it is itself a rough estimate."
        parts.append(
            "<p>± is half of a 95&nbsp;% confidence interval: the mean of very many replications"
            " would most likely lie in it."
            f"{few if replications < _FEW else ''}</p>"
        )
    return "\n".join(parts)


def _comparison(simulations: Sequence[Simulation]) -> list[str]:
    """Return sentences on which variant had the least total regret, and by how much."""
    least, *others = sorted(simulations, key=lambda s: float(s.games.total.mean()))
    total = in_words(quantity(least.games.total))
    if not others:
        return [f"{_bold(least)} had a total regret of {total}."]
    # Replication by replication: what both variants met alike then cancels out.
    more = [(s, quantity(s.games.total - least.games.total)) for s in others]
    same = [s for s, d in more if _is_nothing(d, beside=float(least.games.total.mean()))]
    unclear = [(s, d) for s, d in more if s not in same and _is_unclear(d)]
    clear = [(s, d) for s, d in more if s not in same and not _is_unclear(d)]
    said = [f"{_bold(least)} had the least total regret: {total}."]
    if same:
        said.append(f"{listed(map(_bold, same))} had exactly as much.")
    if unclear:
        close = listed(f"{_bold(s)} ({in_words(d)} more)" for s, d in unclear)
        said.append(
            "Not clearly different from it, because the interval of the difference contains 0:"
            f" {close}."
        )
    if clear:
        (after, difference), *rest = clear
        verb = "had" if difference["stderr"] is None else "clearly had"
        said.append(f"The next, {_bold(after)}, {verb} {in_words(difference)} more.")
        if rest:
            last, difference = rest[-1]
            said.append(f"{_bold(last)} had the most: {in_words(difference)} more.")
    clients = [float(s.games.clients.mean()) for s in simulations]
    if max(clients) > 1.01 * min(clients):
        each = [s.games.total / np.maximum(s.games.clients, 1) for s in simulations]
        least, lost = min(zip(simulations, each, strict=True), key=lambda one: one[1].mean())
        said.append(
            "Regret adds up over clients, and these variants played with different numbers of them"
            f" (from {min(clients):,.0f} to {max(clients):,.0f} on average): a small total can"
            f" come from few clients. Per client {_bold(least)} lost the least:"
            f" {in_words(quantity(lost))}."
        )
    return said


def _bold(simulation: Simulation) -> str:
    return bold(simulation.variant.label)


def _is_nothing(difference: Mapping[str, float | None], *, beside: float) -> bool:
    return all(abs(part or 0.0) <= ROUNDING * beside for part in difference.values())


def _is_unclear(difference: Mapping[str, float | None]) -> bool:
    mean, stderr = difference["mean"], difference["stderr"]
    return mean is not None and stderr is not None and mean <= NORMAL_95 * stderr


def _endings(simulations: Sequence[Simulation]) -> str:
    """Return how often each variant found the best arm, and how it ended otherwise."""
    groups: dict[str, list[Simulation]] = {}
    for simulation in simulations:
        groups.setdefault(_ending(simulation), []).append(simulation)
    if len(groups) == 1 and len(simulations) > 2:
        return f"<p>All {len(simulations)} variants {next(iter(groups))}.</p>"
    sentences = [f"{listed(map(_bold, who))} {ending}." for ending, who in groups.items()]
    if len(sentences) == 1:
        return f"<p>{sentences[0]}</p>"
    return items(sentences)


def _ending(simulation: Simulation) -> str:
    if simulation.fidelity is Fidelity.SLOTS:
        return "chose again in every slot and never settled on an arm, by design"
    played = simulation.games
    n = played.winner.size
    decided, best = played.winner >= 0, chose_best(simulation)
    otherwise = [
        f"{words}: {count:,}"
        for words, count in (
            ("a wrong arm", int((decided & ~best).sum())),
            ("undecided at the end", int((~decided).sum())),
            ("a cap on clients or phases was hit", int(played.capped.sum())),
        )
        if count
    ]
    said = f"settled on the best arm {_times(int(best.sum()), n)}"
    return f"{said} ({'; '.join(otherwise)})" if otherwise else said


def _times(count: int, n: int) -> str:
    """Return how often something happened.

    Examples
    --------
    >>> _times(97, 100), _times(100, 100), _times(1, 1)
    ('in 97 of 100 replications', 'in all 100 replications', 'in the one replication')
    """
    if n == 1:
        return "in the one replication" if count else "in none of 1 replication"
    if count == n:
        return f"in all {n:,} replications"
    return f"in {f'{count:,}' if count else 'none'} of {n:,} replications"
