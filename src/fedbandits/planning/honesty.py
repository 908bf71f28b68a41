"""What honesty is worth: the same plan for clients of whom none, a few or many may lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fedbandits.planning.candidates import rule_for, scheduled
from fedbandits.planning.detection import POWER
from fedbandits.planning.outlook import FEWER_GAMES, Outlook, look_ahead, simulated
from fedbandits.planning.protection import first_enough
from fedbandits.planning.question import MOST_LISTED, Question
from fedbandits.planning.search import OnTried, search
from fedbandits.planning.wording import changed, rounded
from fedbandits.report.chart import NORMAL_95
from fedbandits.report.shown import Shown
from fedbandits.report.wording import share
from fedbandits.rules.estimators import Trimmed
from fedbandits.simulation.assumptions import liars_hide, share_below

_VERY_OFTEN = 10**6

SHARES = (0.0, 0.01, 0.05, 0.1, 0.2)
"""The shares of liars that are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What it takes if some clients may lie.

    Parameters
    ----------
    liars : int or float
        How many may: a share, or a number of clients.
    share : float
        The share of all clients that this is.
    bearable : bool
        Whether enough clients can tell the best two arms apart whatever liars send.
    clients : int, optional
        The fewest that decide in one look with a probability of `POWER`, if each pulls very often
        and nobody lies; None if it is not bearable, or takes more than a plan considers.
    outlook : Outlook, optional
        The best schedule, played by clients of whom nobody lies; None if none decides, or if the
        liars are too many, so that nothing was played.
    """

    liars: float
    share: float
    bearable: bool
    clients: int | None = None
    outlook: Outlook | None = None

    @property
    def words(self) -> str:
        """How many may lie, in words.

        Examples
        --------
        >>> for liars in (0, 0.05, 3):
        ...     print(Price(liars=liars, share=0.0, bearable=True).words)
        nobody
        5 %
        3 clients
        """
        if not self.liars:
            return "nobody"
        if self.liars < 1:
            return f"{100 * self.liars:g} %"
        return f"{self.liars:.0f} client{'' if self.liars == 1 else 's'}"

    @property
    def allowed(self) -> int | None:
        """How many of the clients that play in the end may lie; None if nothing was played."""
        if self.outlook is None:
            return None
        return Trimmed(liars=self.liars).liars_among(int(self.outlook.clients.mean))

    def as_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {
            "liars": self.liars,
            "share": self.share,
            "bearable": self.bearable,
            "fewest_clients": self.clients,
            "allowed": self.allowed,
            "outlook": None if self.outlook is None else asdict(self.outlook),
        }


def hidden(question: Question) -> str | None:
    """Return a sentence if liars can hide the gap from any number of clients.

    Examples
    --------
    >>> from fedbandits.planning.question import least_favourable
    >>> print(hidden(least_favourable(n_arms=2, gap=0.1, noise=0.5, spread=0.1, liars=0.2)))
    liars may move a comparison by 0.0817, and the gap is 0.1: if they do, no number of clients is
    sure to tell the best two arms apart (at most 9.99 % may lie for that)
    """
    if not question.liars:
        return None
    # Of a given number of liars it is their share of all clients that counts.
    of_all = replace(question, liars=question.share_of_liars)
    return liars_hide(rule_for(of_all), question.gap)


def bearable(question: Question) -> float:
    """Return the largest share of liars with which the gap can be found at all."""
    return Trimmed(liars=0).bearable(question.gap, question.spread)


def prices(
    question: Question,
    suggested: Outlook | None,
    *,
    progress: OnTried | None = None,
    **games: Any,
) -> tuple[Price, ...]:
    """Return what it takes for several shares of liars, and for the number that was asked for.

    Parameters
    ----------
    question : Question
        With the liars that were asked for.
    suggested : Outlook, optional
        What was found for these.
    progress : callable, optional
        Called as the searches go on.
    **games
        As in `look_ahead`.
    """

    def found(asked: Question, words: str) -> Outlook | None:
        told = None if progress is None else partial(_named, progress, words)
        best = search(asked, seed=games["seed"], workers=games["workers"], progress=told).best
        return None if best is None else look_ahead(asked, best.f, best.g, **games)

    def each() -> Iterator[Price]:
        fewest: int | None = 1
        others = [one for one in SHARES if one != question.share_of_liars]
        for liars in sorted((question.liars, *others), key=partial(_share, question)):
            asked = replace(question, liars=liars)
            fits = hidden(asked) is None
            price = Price(liars=liars, share=asked.share_of_liars, bearable=fits)
            if fits:
                # More liars never take fewer clients.
                fewest = None if fewest is None else fewest_clients(asked, fewest, **games)
                best = suggested if liars == question.liars else found(asked, price.words)
                price = replace(price, clients=fewest, outlook=best)
            yield price

    return tuple(each())


def fewest_clients(question: Question, least: int = 1, **games: Any) -> int | None:
    """Return how many clients decide rightly in one look with a probability of `POWER`.

    By playing games in which each client pulls very often, or as often as the horizon allows, and
    nobody lies; None if they are more than a plan considers.

    Parameters
    ----------
    question : Question
        The game.
    least : int
        That fewer are not enough.
    **games
        As in `look_ahead`.

    Examples
    --------
    >>> from fedbandits.planning.question import least_favourable
    >>> asked = {"n_arms": 2, "gap": 0.2, "noise": 0.5, "spread": 0.1, "seed": 1, "workers": 1}
    >>> games = {name: asked.pop(name) for name in ("seed", "workers")}
    >>> [fewest_clients(least_favourable(**asked, liars=f), **games) for f in (0, 0.1, 0.2)]
    [8, 8, 14]
    """
    pulls, best = min(_VERY_OFTEN, question.most_pulls), int(np.argmax(question.means))
    games |= {"replications": FEWER_GAMES, "draws": "plan: fewest clients", "fidelity": "clients"}

    def enough(clients: int) -> bool:
        look = scheduled(question, f"{pulls}", f"{clients}")
        (run,) = simulated(question, [look], max_phases=1, **games)
        return float((run.games.winner == best).mean()) >= POWER

    if pulls < 1:
        return None
    return first_enough(enough, min(question.most_clients, MOST_LISTED), least)


def _share(question: Question, liars: float) -> float:
    return replace(question, liars=liars).share_of_liars


def _named(progress: OnTried, words: str, what: str, done: int, of: int) -> None:
    """Say for how many liars a search is."""
    progress(f"{what}, liars: {words}", done, of)


def shown_prices(found: tuple[Price, ...]) -> Shown:
    """Return a row for every number of liars."""
    free = found[0].outlook
    rows = []
    for one in found:
        best = one.outlook
        if best is None:
            why = "no schedule decides" if one.bearable else "no number of clients is sure"
            rows.append([one.words, *["–"] * 6, why])
            continue
        times = "" if free is None else changed(best.regret.mean, free.regret.mean)
        rows.append([
            one.words,
            "–" if one.clients is None else f"{one.clients:,}",
            rounded(best.clients.mean),
            f"{one.allowed:,}",
            rounded(best.pulls_of_arm.mean),
            rounded(best.pulls_in_all.mean),
            f"{rounded(best.regret.mean)} ± {rounded(NORMAL_95 * best.regret.stderr)}",
            "–" if best is free else times,
        ])  # fmt: skip
    headings = [
        *("who may lie", "fewest clients", "clients", "of them may lie"),
        *("pulls of an arm by a client", "pulls in all", "total regret", "against nobody"),
    ]
    words = ("against nobody",)
    return Shown(name="What honesty is worth", headings=headings, rows=rows, words=words)


def honesty_words(question: Question) -> list[str]:
    """Return what the table is about, what it leaves out and how many liars are bearable."""
    said = [
        "This is what it takes to allow for liars. The games were played with the"
        " trimmed mean that the rule uses, and nobody lies in them; if clients do lie, it takes"
        f" longer. The fewest clients decide in one look with a probability of {share(POWER)}, if"
        " each pulls very often. The other columns are of the schedule with the least regret for"
        " that many liars, which weighs clients against pulls. A share of so few clients that it"
        " is less than one of them allows for no liar."
    ]
    limit = f"At most {share_below(bearable(question))} may lie"
    said.append(
        f"{limit} if a gap of {question.gap:.4g} is to be found: with more, no number of clients is"
        " sure to be enough."
    )
    if question.population is not None:
        said.append(
            "The range of these clients' means is not known. Once all of them play, liars that"
            " send extremes can keep a run from deciding, so every schedule with liars is one that"
            " can decide before."
        )
    return said
