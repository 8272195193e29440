"""A plan that an operator approved: a machine over its whole, and what becomes of each decision.

A plan is shown, approved, carried out and done, or stopped on the way (docs: cruise-control). It is
some time old when it is carried out: each decision is held against the cluster as it is then, and
left where it makes no sense any more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from broker_ctl.core.cluster.decisions import Action, Assign, Merge, Skip, Split, Transfer, Unload
from broker_ctl.core.cluster.draining import waits_its_turn
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.errors import InvalidTransition


class State(StrEnum):
    """Where a plan stands.

    PROPOSED      an operator has seen it; nothing is written
    APPROVED      it is written, and a leader will begin with it
    CARRYING_OUT  some of it may have been done
    DONE          each decision of it was done, has failed, or made no sense any more
    STOPPED       by an operator, or since nothing of it could be done for long
    """

    PROPOSED = "proposed"
    APPROVED = "approved"
    CARRYING_OUT = "carrying out"
    DONE = "done"
    STOPPED = "stopped"


class Event(StrEnum):
    """What happens to a plan. STUCK: nothing of what is left could be done for long."""

    APPROVE = "approve"
    BEGIN = "begin"
    SETTLED = "settled"
    STOP = "stop"
    STUCK = "stuck"


TRANSITIONS: Final[Mapping[tuple[State, Event], State]] = {
    (State.PROPOSED, Event.APPROVE): State.APPROVED,
    (State.APPROVED, Event.BEGIN): State.CARRYING_OUT,
    (State.APPROVED, Event.STOP): State.STOPPED,
    # Another leader goes on with it.
    (State.CARRYING_OUT, Event.BEGIN): State.CARRYING_OUT,
    (State.CARRYING_OUT, Event.SETTLED): State.DONE,
    (State.CARRYING_OUT, Event.STOP): State.STOPPED,
    (State.CARRYING_OUT, Event.STUCK): State.STOPPED,
    # What was under way when it was stopped may have been the last of it.
    (State.STOPPED, Event.SETTLED): State.STOPPED,
    (State.STOPPED, Event.STUCK): State.STOPPED,
}

OPEN: Final = frozenset({State.APPROVED, State.CARRYING_OUT})


def step(state: State, event: Event, story: str = "") -> State:
    """The next state.

    Raises:
        InvalidTransition: the pair has no row; ``story`` is told with it.
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise InvalidTransition("approved plan", state, event, story) from None


class Fate(StrEnum):
    """What became of one decision: one letter each, so that thousands are one short text."""

    WAITING = "."
    DONE = "d"
    OBSOLETE = "o"
    FAILED = "f"


Fates = tuple[Fate, ...]


@dataclass(frozen=True, slots=True)
class Sorted:
    """What one look at the cluster makes of the decisions that wait.

    Attributes:
        fates: of all decisions, with those that the look has settled.
        waiting: decisions that may be proposed now, by their place in the plan.
    """

    fates: Fates
    waiting: Mapping[int, Action]


def looked_at(view: ClusterView, decisions: Sequence[Action], fates: Fates) -> Sorted:
    """What is so already is done: an earlier leader may have died before it said so."""
    known, waiting = list(fates), {}
    for place, decision in enumerate(decisions):
        if known[place] is not Fate.WAITING:
            continue
        if _is_so_already(view, decision):
            known[place] = Fate.DONE
        else:
            waiting[place] = decision
    return Sorted(tuple(known), waiting)


def _is_so_already(view: ClusterView, decision: Action) -> bool:
    if any(view.is_busy(bundle) for bundle in decision.bundles):
        return False
    match decision:
        case Transfer() | Assign():
            seen = view.bundles.get(decision.bundle)
            return seen is not None and seen.owner == decision.destination
        case Split():
            is_known = decision.bundle.namespace in view.rings
            return is_known and not view.is_in_ring(decision.bundle)
        case Merge():
            return view.is_in_ring(decision.left.joined(decision.right))
        case Unload():
            return False


def refused(
    waiting: Mapping[int, Action], fates: Fates, skipped: Sequence[Skip]
) -> tuple[Fates, tuple[Skip, ...]]:
    """With those that make no sense any more; a budget that is spent puts off, and ends nothing.

    Also answers with the skips that are final.
    """
    places = {str(bundle): place for place, each in waiting.items() for bundle in each.bundles}
    known = list(fates)
    final = tuple(skip for skip in skipped if not waits_its_turn(skip) and skip.subject in places)
    for skip in final:
        known[places[skip.subject]] = Fate.OBSOLETE
    return tuple(known), final


def carried_out(
    waiting: Mapping[int, Action],
    fates: Fates,
    tried: Sequence[Action],
    done: frozenset[tuple[Bundle, ...]],
) -> Fates:
    """With what came of those that were tried; ``done`` has the bundles of each success."""
    places = {each.bundles: place for place, each in waiting.items()}
    known = list(fates)
    for decision in tried:
        is_done = decision.bundles in done
        known[places[decision.bundles]] = Fate.DONE if is_done else Fate.FAILED
    return tuple(known)
