"""A world in which everything goes wrong, on purpose and by a seed.

A `World` drives a coordinator with its server and a few clients through crashes, lost and late
messages, partitions, failing disks, lies, refusals and withdrawals. Its time is simulated, its
faults come from one seed, and they stop some time; then the run must end. What must hold at any
time is checked at any time, the rest by `checked` at the end.

Run one seed again with ``python tests/federation/faults.py 1234``.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

from fault_games import GAMES, RUN, check
from fault_world import CALM, Mutant, World, planned
from fedbandits.federation.durable_log import read_log
from fedbandits.protocol import (
    ArmWithdrawn,
    ClientHalted,
    Decision,
    PhaseAbandoned,
    PhaseClosed,
    PhaseOpened,
    Quorum,
    Reason,
    RecallConfirmed,
    Rejection,
    RunEnded,
    Server,
    ServerStarted,
    ServerState,
    Update,
    UpdateAccepted,
    UpdateRejected,
)
from fedbandits.protocol.consistency import contradiction

# What must hold of a log -------------------------------------------------------------------------

_FAULTY = {
    Rejection.SHAPE,
    Rejection.COUNTS,
    Rejection.NOT_FINITE,
    Rejection.PACKED,
}


def check_log(world: World) -> None:
    """Read a log as somebody who knows the rules and not the code."""
    game, records = world.game, world.written
    active, admitted = [True] * 3, set[str]()
    phase, is_open, is_last, is_over, epoch = 0, False, False, False, 1
    reported: set[str] = set()
    faults: Counter[str] = Counter()
    dropped: set[int] = set()
    may_return: set[int] = set()  # those that were out when another arm was withdrawn
    for record in records:
        if not isinstance(record, UpdateRejected | ServerStarted | RecallConfirmed):
            check(not is_over, f"{type(record).__name__} after the end")
            ends = not is_last or isinstance(record, RunEnded)
            check(ends, f"{type(record).__name__} where no phase follows")
        match record:
            case PhaseOpened(assignment=assignment, admitted=newcomers, complete=complete):
                check(not is_open, "a phase was opened while one was open")
                check(assignment.phase == phase + 1, "a phase was left out")
                check(phase != game.rule.max_phases, "a phase after the last")
                check(admitted.isdisjoint(newcomers), "a client was admitted twice")
                pulled = [n > 0 for n in assignment.pulls]
                active = [active[k] or (pulled[k] and k in may_return) for k in range(3)]
                # An index rule leaves out what it need not ask for; one arm is always pulled.
                fair = (
                    any(pulled) and all(active[arm] for arm, n in enumerate(pulled) if n)
                    if not game.rule.scheduled
                    else pulled == active
                )
                check(
                    fair or not complete, "pulls of an arm that is out, or none of one that is in"
                )
                phase, is_open, is_last = assignment.phase, complete, not complete
                admitted |= set(newcomers)
                reported = set()
            case UpdateAccepted(update=update):
                check(is_open and update.phase == phase, "an update of another phase was counted")
                check(update.client not in reported, "an update was counted twice")
                check(update.client in admitted, "a stranger was counted")
                check(update.header.epoch == epoch, "an update of another epoch was counted")
                truth = world.answers.get((update.client, phase))
                told = replace(update, header=world.header, halt=None)
                check(told == truth, "a lie was counted")
                reported.add(update.client)
            case UpdateRejected(client=client, rejection=rejection):
                faults[client] += rejection in _FAULTY
            case PhaseClosed(decision=decision):
                check(is_open and decision.phase == phase, "another phase was decided")
                most = game.quarantine_after
                out = {name for name in admitted - reported if most and faults[name] >= most}
                needed = game.quorum.of(len(admitted - out))
                check(len(reported) >= needed, f"decided by {len(reported)}, quorum {needed}")
                stays = enumerate(zip(active, decision.active, strict=True))
                check(all(a or not b or k in may_return for k, (a, b) in stays), "an arm came back")
                dropped |= {k for k in range(3) if active[k]}
                active, may_return = list(decision.active), set()
                dropped -= {k for k in range(3) if active[k]}
                check(all(map(math.isfinite, decision.estimates)), "an estimate is no number")
                is_open, is_last = False, decision.final
            case PhaseAbandoned():
                check(is_open, "abandoned what was not open")
                is_open = False
            case ArmWithdrawn(arm=arm):
                check(active[arm] or arm in may_return, "an arm was withdrawn twice")
                active[arm] = False
                dropped.discard(arm)
                may_return = set(dropped)
            case ServerStarted(epoch=newer):
                check(newer > epoch, "an epoch was used twice")
                epoch = newer
            case RunEnded(decision=last):
                check(last.final, "a run has ended without a reason")
                stays = enumerate(zip(active, last.active, strict=True))
                check(all(a == b or k in may_return for k, (a, b) in stays), "other arms are left")
                is_open, is_over = False, True
        check(any(active) or bool(may_return), "no arm is left")
    check(is_over, "the last word is not in the log")


def check_end(world: World) -> None:
    """Somebody may stay on the arm that is told as the best."""
    live = world.server
    check(live.finished, "the run goes on")
    if live.decision is not None:
        best = live.decision.best
        check(best not in live.withdrawn, "clients are to stay on a withdrawn arm")
        check(live.decision.active[best], "clients are to stay on an arm that is out")


def check_replay(world: World) -> None:
    """The state is the log, and the decisions are what was accepted, in any order."""
    live = world.server
    replayed = Server.replay(
        world.game.rule,
        world.written,
        run=RUN,
        privacy=world.game.privacy,
        quorum=world.game.quorum,
        quarantine_after=world.game.quarantine_after,
    )
    check(replayed.snapshot() == live.snapshot(), "replay differs from the live state")
    check(replayed.decision == live.decision, "the decision of the replay differs")
    check(replayed.assignment == live.assignment, "the assignment of the replay differs")
    check(replayed.finished, "the replay goes on where the run has ended")
    # Made again from what was accepted alone, the other way round, by a server without a quorum.
    again = Server(
        world.game.rule, run=RUN, privacy=world.game.privacy, quorum=Quorum(fraction=1e-9)
    )
    waiting: list[Update] = []
    for record in world.written:
        match record:
            case PhaseOpened(admitted=admitted, assignment=assignment):
                check(again.open(admitted) == assignment, "another assignment")
            case UpdateAccepted(update=update):
                # What was halted then is in records of its own.
                waiting.append(update)
                continue
            case UpdateRejected():
                continue
            case RunEnded(decision=last):  # it may have ended by itself
                if again.state is not ServerState.FINISHED:
                    again._commit(record)
                check(again.run_state.last_word == last, "another last word")
            case ServerStarted(epoch=epoch):
                waiting = [
                    replace(update, header=replace(update.header, epoch=epoch))
                    for update in waiting
                ]
                again._commit(record)
            case PhaseClosed(decision=decision):
                for update in reversed(waiting):
                    halt = again.run_state.halts.get(update.client)
                    rejection = again.receive(replace(update, halt=halt))
                    check(rejection is None, "an accepted update is rejected")
                waiting = []
                check(again.close() == decision, "another decision")
            case PhaseAbandoned():
                for update in reversed(waiting):
                    halt = again.run_state.halts.get(update.client)
                    rejection = again.receive(replace(update, halt=halt))
                    check(rejection is None, "an accepted update is rejected")
                waiting = []
                again._commit(record)
            case _:
                again._commit(record)


def check_follows(world: World) -> None:
    """Every record follows from those before it, for somebody who trusts no server."""
    game = world.game
    reader = Server(
        game.rule,
        run=RUN,
        privacy=game.privacy,
        quorum=game.quorum,
        quarantine_after=game.quarantine_after,
    )
    for record in world.written:
        said = contradiction(reader.run_state, record)
        check(said is None, f"{type(record).__name__} does not follow: {said}")
        reader.follow(record)


def decisions_of(world: World) -> list[Decision]:
    return [
        replace(record.decision, header=world.header)
        for record in world.written
        if isinstance(record, PhaseClosed)
    ]


def admissions_of(world: World) -> list[tuple[str, ...]]:
    return [record.admitted for record in world.written if isinstance(record, PhaseOpened)]


def nobody_was_left_out(world: World) -> bool:
    """Return whether every phase was decided by all clients, and nobody intervened."""
    admitted, reported = 0, 0
    for record in world.written:
        match record:
            case PhaseOpened(admitted=newcomers):
                admitted, reported = admitted + len(newcomers), 0
            case UpdateAccepted(update=update) if update.halted:
                return False
            case UpdateAccepted():
                reported += 1
            case PhaseClosed() if reported < admitted:
                return False
            case PhaseAbandoned() | ArmWithdrawn() | ClientHalted():
                return False
            case RunEnded(decision=last) if last.reason in (Reason.BUDGET, Reason.QUORUM):
                return False
    return True


@cache
def undisturbed(name: str, data: int) -> World:
    """Return the run of a game without any fault."""
    world = World(GAMES[name], data, CALM, seed=0)
    world.run()
    return world


_NAMES = {id(game): name for name, game in GAMES.items()}


def checked(world: World) -> bool:
    """Check a run that is over; return whether it was compared with the undisturbed one."""
    check_log(world)
    check_end(world)
    check_replay(world)
    if not nobody_was_left_out(world):
        return False
    calm = undisturbed(_NAMES[id(world.game)], world.data)
    if admissions_of(world) != admissions_of(calm):
        return False
    check(decisions_of(world) == decisions_of(calm), "faults have changed the decision")
    return True


def played(seed: int, mutant: Mutant | None = None, folder: Path | None = None) -> World:
    """Play the storm of a seed and check it; an error names the seed."""
    game, data, storm = planned(seed)
    world = World(game, data, storm, seed=seed, mutant=mutant, folder=folder)
    try:
        world.run()
        if checked(world):
            world.count("compared")
    except Exception as error:
        error.add_note(f"in the storm of seed {seed}: python tests/federation/faults.py {seed}")
        raise
    finally:
        world.store.close()
    if folder is not None:
        content = read_log(folder / "run.fedlog")
        check(list(content.records) == world.written, "the file is not what was written")
        check_follows(world)
    return world


def main() -> None:
    """Play one seed again and print its log."""
    seed = int(sys.argv[1])
    game, data, storm = planned(seed)
    world = World(game, data, storm, seed=seed)
    out = sys.stdout.write
    out(f"{_NAMES[id(game)]}, data {data}\n{storm}\n")
    try:
        world.run()
        checked(world)
    finally:
        for record in world.written:
            out(f"{record}\n")
        out(f"{dict(world.counts)}\n")


if __name__ == "__main__":
    main()
