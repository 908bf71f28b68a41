"""How to read the page: the words on it, and what they mean."""

from __future__ import annotations

WORDS = (
    (
        "arms, clients, slots",
        "There are several options, the arms. In every slot, a step of time, each client tries one"
        " arm and observes a number. The best arm is the one with the highest mean over all"
        " clients; a single client's own best arm may be another.",
    ),
    (
        "phase",
        "Clients try the arms that are still in question, send averages to the server, and the"
        " server drops the arms that are clearly worse. Such a round is a phase; clients may be"
        " admitted at its start.",
    ),
    (
        "regret",
        "What is lost in comparison with playing the best arm from the start, added up over all"
        " admitted clients and all slots. Less is better; a curve that has become flat no"
        " longer loses anything.",
    ),
    (
        "exploration, communication",
        "The two parts of total regret. Exploration: trying an arm costs how much lower its mean"
        " is than the best one's. Communication: every admitted client pays the communication"
        " cost at the end of a phase (some algorithms pay in every slot, some never).",
    ),
    (
        "per client",
        "Total regret divided by the number of clients: what one client lost on average. Totals of"
        " few clients are small even where each of them loses much.",
    ),
    (
        "clients, phases",
        "How many clients were admitted, and how many phases were completed, on average over the"
        " replications.",
    ),
    (
        "decision slot",
        "The slot after which one arm was left, over the replications that came so far.",
    ),
    (
        "best arm, wrong arm, undecided",
        "In which share of the replications the last arm left was the best one, another one, or"
        " more than one arm was left at the end.",
    ),
    (
        "capped",
        "In which share a limit on the number of clients or phases was reached, so that the rule"
        " could not go on as it wanted.",
    ),
    (
        "fidelity",
        "What the simulation draws at random: <i>cohorts</i>, the sum of what the clients of"
        " a cohort (admitted together) observe of an arm in a phase; <i>clients</i>, the sum of"
        " each client; <i>pulls</i>, every single observation, through the real messages;"
        " <i>slots</i>, every observation of an algorithm that chooses again in every slot. All"
        " follow the same law; the first is the fastest.",
    ),
    ("–", "Does not apply: the algorithm never decides, or it did not in any replication."),
)


def glossary(*terms: str) -> list[tuple[str, str]]:
    """Return some of the words, for a page that does not use all of them.

    Examples
    --------
    >>> [word for word, _ in glossary("regret", "phase")]
    ['phase', 'regret']
    """
    return [(word, meaning) for word, meaning in WORDS if word in terms]
