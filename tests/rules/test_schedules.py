"""Schedules: the expression language gives the paper's f(p) and g(p), and refuses all else."""

from __future__ import annotations

import ast
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedbandits.errors import InputError
from fedbandits.rules.algorithms import Fed2Ucb
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.schedules import Schedule, as_schedule

modest = settings(deadline=None, derandomize=True, max_examples=300)

HORIZONS = [2, 3, 10, 148, 149, 10_000, 10**6, 10**9, 10**15]


# The paper's own choices -------------------------------------------------------------------------


def log_times(factor: Fraction, horizon: int) -> int:
    """Return ⌈factor · log T⌉, to 60 decimal digits."""
    digits = Context(prec=60)
    exact = digits.multiply(Decimal(factor.numerator), digits.ln(Decimal(horizon)))
    exact = digits.divide(exact, Decimal(factor.denominator))
    return int(exact.to_integral_value(rounding=ROUND_CEILING))


@pytest.mark.parametrize("horizon", HORIZONS)
@pytest.mark.parametrize("constant", [1, 7, 100, 12_345])
def test_a_constant_number_of_pulls_or_clients(constant: int, horizon: int) -> None:
    schedule = Schedule(str(constant))
    for phase in range(1, 40):
        assert schedule.pulls(phase=phase, horizon=horizon) == constant
        assert schedule.admissions(phase=phase, horizon=horizon) == constant


@pytest.mark.parametrize("horizon", HORIZONS)
@pytest.mark.parametrize("factor", ["1", "10", "0.5", "2.75", "100", "1/3"])
def test_a_multiple_of_the_log_of_the_horizon(factor: str, horizon: int) -> None:
    schedule = Schedule(f"ceil({factor}*log(T))")
    wanted = log_times(Fraction(factor), horizon)
    for phase in (1, 2, 17, 60):
        assert schedule.pulls(phase=phase, horizon=horizon) == wanted
        assert schedule.admissions(phase=phase, horizon=horizon) == wanted


def test_powers_of_two_are_exact_in_every_phase() -> None:
    schedule = Schedule("2^p")
    doubled = 1
    for phase in range(1, 301):
        doubled += doubled
        for value in (
            schedule.pulls(phase=phase, horizon=10**6),
            schedule.admissions(phase=phase, horizon=None),
        ):
            assert type(value) is int
            assert value == doubled
    assert schedule.pulls(phase=60, horizon=10**6) == 1_152_921_504_606_846_976


@pytest.mark.parametrize("horizon", HORIZONS)
def test_powers_of_two_times_the_log_of_the_horizon(horizon: int) -> None:
    schedule = Schedule("ceil(2^p*log(T))")
    for phase in range(1, 25):
        wanted = log_times(Fraction(2**phase), horizon)
        assert schedule.pulls(phase=phase, horizon=horizon) == wanted
        assert schedule.admissions(phase=phase, horizon=horizon) == wanted


@modest
@given(
    factor=st.integers(1, 1000),
    phase=st.integers(1, 20),
    horizon=st.integers(2, 10**15),
)
def test_the_paper_s_eight_choices_for_any_phase_and_horizon(
    factor: int, phase: int, horizon: int
) -> None:
    choices: list[tuple[str, int]] = [
        (f"{factor}", factor),
        (f"ceil({factor}*log(T))", log_times(Fraction(factor), horizon)),
        ("2^p", 1 << phase),
        ("ceil(2^p*log(T))", log_times(Fraction(1 << phase), horizon)),
    ]
    for source, wanted in choices:
        assert Schedule(source).pulls(phase=phase, horizon=horizon) == wanted
        assert Schedule(source).admissions(phase=phase, horizon=horizon) == wanted


@pytest.mark.parametrize(
    ("source", "phase", "exact"),
    [
        ("2^p - 1", 60, 2**60 - 1),
        ("3^p", 40, 3**40),
        ("2^p/3*3", 60, 2**60),
        ("ceil(1.1*2^p)", 60, -(-11 * 2**60 // 10)),
        ("floor(2^p/3)", 60, 2**60 // 3),
        ("max(2^p, 2^p + 1)", 70, 2**70 + 1),
        ("0.1*3*10", 1, 3),
        ("1_000", 1, 1000),
        ("2.5e3", 1, 2500),
        (" 5 ", 1, 5),
    ],
)
def test_whole_numbers_and_fractions_stay_exact(source: str, phase: int, exact: int) -> None:
    assert Schedule(source).pulls(phase=phase, horizon=None) == exact


def test_log_is_natural_and_sqrt_is_the_square_root() -> None:
    assert Schedule("log(T)").value(phase=1, horizon=1000) == math.log(1000)
    assert Schedule("sqrt(p)").value(phase=2, horizon=None) == math.sqrt(2)
    assert Schedule("sqrt(T)").pulls(phase=1, horizon=10**6) == 1000


def test_the_log_of_a_fraction_beyond_floating_point_has_its_value() -> None:
    value = Schedule("log(10^-400)").value(phase=1, horizon=None)
    assert value == pytest.approx(-400 * math.log(10))
    value = Schedule("log(10^400/3)").value(phase=1, horizon=None)
    assert value == pytest.approx(400 * math.log(10) - math.log(3))


def test_a_negative_float_to_a_whole_power_has_its_value() -> None:
    value = Schedule("(-log(T))^2").value(phase=1, horizon=1000)
    assert value == pytest.approx(math.log(1000) ** 2)


# Precedence and associativity --------------------------------------------------------------------


@dataclass(frozen=True)
class Leaf:
    text: str


@dataclass(frozen=True)
class Negated:
    inner: Tree


@dataclass(frozen=True)
class Binary:
    sign: str
    left: Tree
    right: Tree


@dataclass(frozen=True)
class Function:
    name: str
    inner: tuple[Tree, ...]


Tree = Leaf | Negated | Binary | Function

SUM, PRODUCT, UNARY, POWER, ATOM = range(5)
LEVELS = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "^": POWER}


def level_of(tree: Tree) -> int:
    match tree:
        case Binary(sign=sign):
            return LEVELS[sign]
        case Negated():
            return UNARY
        case _:
            return ATOM


def show(tree: Tree, spaces: random.Random) -> str:
    """Return a tree as text with no parentheses but the necessary ones, and random spaces."""

    def gap() -> str:
        return spaces.choice(["", "", " ", "  "])

    def inside(child: Tree, lowest: int) -> str:
        text = show(child, spaces)
        return text if level_of(child) >= lowest else f"({gap()}{text}{gap()})"

    match tree:
        case Leaf(text=text):
            return text
        case Negated(inner=inner):
            return f"-{gap()}{inside(inner, UNARY)}"
        case Function(name=name, inner=arguments):
            listed = f"{gap()},{gap()}".join(show(argument, spaces) for argument in arguments)
            return f"{name}({listed})"
        case Binary(sign="^", left=left, right=right):
            return f"{inside(left, ATOM)}{gap()}^{gap()}{inside(right, UNARY)}"
        case Binary(sign=sign, left=left, right=right):
            level = LEVELS[sign]
            return f"{inside(left, level)}{gap()}{sign}{gap()}{inside(right, level + 1)}"


def leaf_value(text: str, phase: int, horizon: int) -> Fraction:
    return Fraction({"p": phase, "T": horizon}.get(text, text))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "ceil": math.ceil,
    "floor": math.floor,
}


def power(base: Fraction, exponent: Fraction) -> Fraction:
    # The trees below hold whole exponents alone.
    return base ** int(exponent)


def evaluate(tree: Tree, phase: int, horizon: int) -> Fraction:
    """Return the value of a tree, in fractions; division by zero raises."""

    def of(child: Tree) -> Fraction:
        return evaluate(child, phase, horizon)

    match tree:
        case Leaf(text=text):
            return leaf_value(text, phase, horizon)
        case Negated(inner=inner):
            return -of(inner)
        case Function(name=name, inner=arguments):
            return Fraction(FUNCTIONS[name](*map(of, arguments)))
        case Binary(sign="+", left=left, right=right):
            return of(left) + of(right)
        case Binary(sign="-", left=left, right=right):
            return of(left) - of(right)
        case Binary(sign="*", left=left, right=right):
            return of(left) * of(right)
        case Binary(sign="/", left=left, right=right):
            return of(left) / of(right)
        case Binary(left=left, right=right):
            return power(of(left), of(right))


PYTHON_OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: power,
}


def as_python_reads(text: str, phase: int, horizon: int) -> Fraction:
    """Return the value of the text by Python's grammar, in fractions."""

    def of(node: ast.expr) -> Fraction:
        match node:
            case ast.Constant(value=int() | float()) | ast.Name():
                return leaf_value(ast.unparse(node), phase, horizon)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -of(operand)
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return Fraction(FUNCTIONS[name](*map(of, arguments)))
            case ast.BinOp(left=left, op=operator, right=right):
                return PYTHON_OPERATORS[type(operator)](of(left), of(right))
            case _:
                raise AssertionError(ast.dump(node))

    return of(ast.parse(text.replace("^", "**"), mode="eval").body)


small = st.integers(0, 3).map(lambda n: Leaf(str(n)))
# Whole exponents that stay small, and lean to the right: 2^3^2, 2^-p^2.
exponents: st.SearchStrategy[Tree] = st.one_of(
    small,
    st.just(Leaf("p")),
    small.map(Negated),
    st.builds(Binary, st.just("^"), small, st.integers(0, 2).map(lambda n: Leaf(str(n)))),
    st.builds(Binary, st.sampled_from("+-*"), small, small),
)
leaves: st.SearchStrategy[Tree] = st.sampled_from(
    ["p", "T", "0", "1", "2", "3", "5", "7", "12", "0.5", "2.25", "10.0"]
).map(Leaf)


def grow(children: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.one_of(
        st.builds(Binary, st.sampled_from("+-*/"), children, children),
        st.builds(Binary, st.sampled_from("+-*/"), children, children),
        st.builds(Binary, st.just("^"), children, exponents),
        st.builds(Negated, children),
        st.builds(Function, st.sampled_from(["ceil", "floor"]), st.tuples(children)),
        st.builds(
            Function,
            st.sampled_from(["min", "max"]),
            st.lists(children, min_size=2, max_size=3).map(tuple),
        ),
    )


trees: st.SearchStrategy[Tree] = st.recursive(leaves, grow, max_leaves=9)


@settings(deadline=None, derandomize=True, max_examples=600)
@given(tree=trees, spaces=st.integers(0, 99), phase=st.integers(1, 5), horizon=st.integers(1, 50))
def test_expressions_mean_what_python_takes_them_for(
    tree: Tree, spaces: int, phase: int, horizon: int
) -> None:
    text = show(tree, random.Random(spaces))
    assume(len(text) <= 200)
    schedule = Schedule(text)
    try:
        wanted = evaluate(tree, phase, horizon)
    except ZeroDivisionError:
        with pytest.raises(InputError, match=f"divides by zero in phase {phase}"):
            schedule.value(phase=phase, horizon=horizon)
        return
    assert as_python_reads(text, phase, horizon) == wanted
    value = schedule.value(phase=phase, horizon=horizon)
    assert not isinstance(value, float)
    assert value == wanted
    assert schedule.depends_on_phase == ("p" in text.replace("ceil", ""))
    assert schedule.depends_on_horizon == ("T" in text)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("10 - 4 - 3", 3),
        ("100 / 10 / 5", 2),
        ("2^3^2", 512),
        ("-2^2 + 8", 4),
        ("4 * 2^-1", 2),
        ("2 * 3 + 4 * 5", 26),
        ("2 * (3 + 4) * 5", 70),
        ("--3", 3),
        ("7 - -2", 9),
        ("2^-1^2 * 4", 2),
    ],
)
def test_precedence_and_associativity_by_hand(source: str, value: int) -> None:
    assert Schedule(source).pulls(phase=1, horizon=None) == value


# Mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "character", "problem"),
    [
        ("2 + * 3", 5, 'unexpected "*"'),
        ("10 $ p", 4, 'unexpected "$"'),
        ("2 p", 3, 'unexpected "p"'),
        ("2p", 2, 'unexpected "p"'),
        ("(2))", 4, 'unexpected ")"'),
        ("ceil(10*log(T)", 15, 'the end where ")" is needed'),
        ("(2, 3)", 3, '"," where ")" is needed'),
        ("log 5", 5, '"5" where "(" is needed'),
        ("2*lg(T)", 3, 'unknown name "lg"'),
        ("P", 1, 'unknown name "P"'),
        ("1 + min(4)", 5, "min 1 arguments"),
        ("log(2, 3)", 1, "log 2 arguments"),
        ("+3", 1, 'unexpected "+"'),
        ("2**p", 3, 'unexpected "*"'),
        ("1.5.2", 4, 'unexpected ".2"'),
        ("3 # pulls", 3, 'unexpected "#"'),
        ("  4 5", 5, 'unexpected "5"'),
    ],
)
def test_a_malformed_expression_is_refused_and_the_character_named(
    source: str, character: int, problem: str
) -> None:
    with pytest.raises(InputError) as caught:
        Schedule(source)
    assert f'"{source}"' in str(caught.value)
    assert problem in str(caught.value)
    assert f"at character {character};" in str(caught.value)


@pytest.mark.parametrize("source", ["2 +", "2^", "ceil(", "max(1,", "-", "2*("])
def test_an_expression_that_breaks_off_is_refused(source: str) -> None:
    with pytest.raises(InputError, match="ends too early"):
        Schedule(source)


@pytest.mark.parametrize("source", ["", "   ", "\t\n"])
def test_an_empty_expression_is_refused(source: str) -> None:
    with pytest.raises(InputError, match="is empty"):
        Schedule(source)


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match='did you mean "floor"'):
        Schedule("flor(3)")


HOSTILE = [
    "__import__('os')",
    "__import__('os').system('true')",
    "p.__class__",
    "().__class__",
    "lambda: 1",
    "exec('1')",
    "T if p else 1",
    "p[0]",
    "1;2",
    "'100'",
    "9^9^9^9",
    "9^9^9^9^9^9^9",
    "(9^9^9)^(9^9^9)",
    "2^(2^(2^(2^(2^2))))*2^20000",
    "0.1^99999",
    "1e9999",
    "1e999^999",
    "-1e999",
    "1-10^400",
    "1e400+log(T)",
    "1/0",
    "0^-1",
    "0^-p",
    "(p-p)^(-1/2)",
    "(-8)^(1/3)",
    "log(0)",
    "log(-1)",
    "log(-10^400)",
    "log(10^-400)",
    "sqrt(-1)",
    "sqrt(-10^400)",
    "(10^-400)^(-3/2)",
    "log(T)/10^-400",
    "log(T)*1e308*1e308",
    "ceil(log(T)*1e308*10 - log(T)*1e308*10)",
    "max(1, log(T)*1e308*10 - log(T)*1e308*10)",
    "inf",
    "nan",
    "\u0663",
    "\uff11\uff10",
    "1\u0660",
    "\u00b2",
    "\u0661.\u0665",
    "\u03bb",
    "\uff50",
    "\x00",
    "1\x00",
    "100\x00p",
    "\ud800",
    "1__0",
    "1_",
    "1_.5",
    "1_e5",
    "_1",
    "(" * 60,
    "(" * 120,
    "(" * 190,
    "(" * 200,
    "(" * 199 + "1",
    "-" * 199,
    "2^" * 99,
    "min(" * 50,
    ")" * 200,
    "(" * 10**6,
    "1+" * 10**5 + "1",
    "9" * 10**6,
    " " * 10**6,
]


@pytest.mark.parametrize("source", HOSTILE, ids=lambda source: ascii(source[:24]))
def test_hostile_input_is_refused_at_once(source: str) -> None:
    begin = time.perf_counter()
    with pytest.raises(InputError) as caught:
        Schedule(source).pulls(phase=1, horizon=10**6)
    assert time.perf_counter() - begin < 20.0
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("(" * 99 + "1" + ")" * 99, 1),
        ("-" * 198 + "1", 1),
        ("1^" * 99 + "1", 1),
        ("ceil(" * 33 + "1" + ")" * 33, 1),
        ("max(" + "1," * 97 + "2)", 2),
    ],
    ids=["parentheses", "minus", "powers", "calls", "arguments"],
)
def test_the_deepest_expressions_that_fit_have_their_value(source: str, value: int) -> None:
    assert len(source) <= 200
    assert Schedule(source).pulls(phase=1, horizon=None) == value


def value_or_error(ask: Callable[..., int], phase: int, horizon: int | None) -> int | InputError:
    try:
        return ask(phase=phase, horizon=horizon)
    except InputError as error:
        return error


pieces = st.sampled_from(
    [
        *"0123456789.,+-*/^()_ \n\t\x00eEpTx$'",
        *("log(", "sqrt(", "ceil(", "floor(", "min(", "max("),
        *("1e99", "10^400", "1/", "2^", "\u0663", "\u00e9", "))", "-1"),
    ]
)


@settings(deadline=None, derandomize=True, max_examples=2000)
@given(
    source=st.one_of(st.lists(pieces, max_size=14).map("".join), st.text(max_size=30)),
    phase=st.sampled_from([1, 2, 3, 64, 2000]),
    horizon=st.sampled_from([None, 1, 1000, 10**15]),
)
def test_any_text_gives_whole_numbers_or_an_input_error(
    source: str, phase: int, horizon: int | None
) -> None:
    try:
        schedule = Schedule(source)
    except InputError:
        return
    for lowest, ask in ((1, schedule.pulls), (0, schedule.admissions)):
        value = value_or_error(ask, phase, horizon)
        if isinstance(value, InputError):
            assert f"in phase {phase}" in str(value)
        else:
            assert type(value) is int
            assert value >= lowest


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("2^p", 2**2000),
        ("10^400", 10**400),
        ("10^4000*10^4000", 10**8000),
        ("2^(10*p)", 2**20_000),
    ],
    ids=["doubling", "power", "product", "faster"],
)
def test_numbers_that_run_away_are_given_exactly_or_refused(source: str, value: int) -> None:
    given_or_refused = value_or_error(Schedule(source).pulls, 2000, 10**6)
    if isinstance(given_or_refused, InputError):
        assert "in phase 2000" in str(given_or_refused)
    else:
        assert given_or_refused == value


# What a phase can use ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "phase", "gives", "hint"),
    [
        ("100/p", 3, "33.3333", "wrap it in ceil(...)"),
        ("100/p", 102, "0.980392", "wrap it in ceil(...)"),
        ("10*log(T)", 7, "138.155", "wrap it in ceil(...)"),
        ("0.5", 1, "0.5", "wrap it in ceil(...)"),
        ("3 - p", 3, "0", "wrap it in max(1, ...)"),
        ("3 - p", 9, "-6", "wrap it in max(1, ...)"),
        ("1/2 - p", 2, "-1.5", "wrap it in max(1, ...)"),
    ],
)
def test_pulls_that_no_phase_can_make_name_the_phase_and_the_way_out(
    source: str, phase: int, gives: str, hint: str
) -> None:
    with pytest.raises(InputError) as caught:
        Schedule(source).pulls(phase=phase, horizon=10**6)
    assert f'"{source}" gives {gives} pulls in phase {phase};' in str(caught.value)
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("source", "phase", "gives", "hint"),
    [
        ("p/2", 3, "1.5", "wrap it in ceil(...)"),
        ("p/4", 2, "0.5", "wrap it in ceil(...)"),
        ("p - 1", 1, "0", "wrap it in max(1, ...)"),
        ("2 - p", 3, "-1", "wrap it in max(0, ...)"),
    ],
)
def test_admissions_that_no_phase_can_make_name_the_phase_and_the_way_out(
    source: str, phase: int, gives: str, hint: str
) -> None:
    with pytest.raises(InputError) as caught:
        Schedule(source).admissions(phase=phase, horizon=10**6)
    assert f'"{source}" gives {gives} clients in phase {phase};' in str(caught.value)
    assert hint in str(caught.value)


def test_a_later_phase_may_admit_nobody() -> None:
    schedule = Schedule("max(0, 3 - p)")
    assert [schedule.admissions(phase=p, horizon=None) for p in range(1, 5)] == [2, 1, 0, 0]


@modest
@given(a=st.integers(-50, 500), b=st.integers(1, 30), phase=st.integers(1, 3))
def test_a_fraction_is_taken_exactly_when_it_is_whole_and_enough(
    a: int, b: int, phase: int
) -> None:
    schedule = Schedule(f"{a}/{b}")
    for lowest, ask in (
        (1, schedule.pulls),
        (1 if phase == 1 else 0, schedule.admissions),
    ):
        if a % b == 0 and a // b >= lowest:
            assert ask(phase=phase, horizon=None) == a // b
        else:
            with pytest.raises(InputError, match=f"in phase {phase}"):
                ask(phase=phase, horizon=None)


@pytest.mark.parametrize("source", ["T", "ceil(10*log(T))", "max(1, p + 0*T)"])
def test_the_horizon_in_a_game_without_one_is_an_error(source: str) -> None:
    schedule = Schedule(source)
    assert schedule.depends_on_horizon
    with pytest.raises(InputError, match="uses T, but this game has no horizon"):
        schedule.pulls(phase=1, horizon=None)


def test_an_expression_without_the_horizon_needs_none() -> None:
    schedule = Schedule("ceil(100/p)")
    assert schedule.depends_on_phase
    assert not schedule.depends_on_horizon
    assert schedule.pulls(phase=3, horizon=None) == 34


# From files and arguments ------------------------------------------------------------------------


def test_schedules_are_taken_from_text_whole_numbers_and_schedules() -> None:
    assert as_schedule("2^p") == Schedule("2^p")
    assert as_schedule(100) == Schedule("100")
    assert as_schedule(Schedule("p")) == Schedule("p")
    assert hash(Schedule("2^p")) == hash(as_schedule("2^p"))


@pytest.mark.parametrize("value", [1.5, True, None, ["2^p"], b"2^p"])
def test_anything_else_is_refused_under_its_key(value: Any) -> None:
    with pytest.raises(InputError) as caught:
        as_schedule(value, "pulls")
    assert caught.value.where == "pulls"
    assert "is not a schedule" in str(caught.value)


def test_a_malformed_schedule_is_refused_under_its_key() -> None:
    with pytest.raises(InputError) as caught:
        as_schedule("2 +", "variants[1].pulls")
    assert caught.value.where == "variants[1].pulls"


def test_a_whole_number_that_is_too_long_is_refused() -> None:
    with pytest.raises(InputError):
        as_schedule(10**5000, "pulls")


@pytest.mark.parametrize(
    ("pulls", "horizon", "phases"),
    [("100", 10**6, 2), ("100-p", 5_000, 30), ("p", 10**6, 1_000), ("max(1, 9-p)", 10**6, 10_000)],
)
def test_schedules_are_checked_as_far_as_a_game_can_go(
    pulls: str, horizon: int, phases: int
) -> None:
    told = Beliefs(n_arms=2, horizon=horizon, noise=0.5, spread=0.02)
    found = list(Fed2Ucb(pulls=pulls, admissions=2).rule(told).checked_phases())
    assert [phase.number for phase in found] == list(range(1, phases + 1))
