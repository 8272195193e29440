"""Approved plans: the state machine of a plan, and the fate of each decision.

A plan is proposed, approved, executed and done, or stopped (docs: cruise-control). It is some time
old when it is executed: each decision is compared with the current cluster, and dropped if it is
obsolete.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from broker_ctl.core.cluster.decisions import Action, Assign, Merge, Skip, Split, Transfer, Unload
from broker_ctl.core.cluster.directives import waits_its_turn
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.machines.table import StateMachine
from broker_ctl.core.model.names import Bundle


class ApprovalState(StrEnum):
    """State of a plan.

    PROPOSED      an operator reviews it; nothing is written
    APPROVED      it is written, and a leader will begin with it
    CARRYING_OUT  some of it may have been done
    DONE          each decision was done, has failed, or was obsolete
    STOPPED       by an operator, or because no decision could be done for long
    """

    PROPOSED = "proposed"
    APPROVED = "approved"
    CARRYING_OUT = "carrying out"
    DONE = "done"
    STOPPED = "stopped"


class ApprovalEvent(StrEnum):
    """What happens to a plan. STUCK: none of the remaining decisions could be done for long."""

    APPROVE = "approve"
    BEGIN = "begin"
    SETTLED = "settled"
    STOP = "stop"
    STUCK = "stuck"


_S, _E = ApprovalState, ApprovalEvent

TRANSITIONS: Final[Mapping[tuple[ApprovalState, ApprovalEvent], ApprovalState]] = {
    (_S.PROPOSED, _E.APPROVE): _S.APPROVED,
    (_S.APPROVED, _E.BEGIN): _S.CARRYING_OUT,
    (_S.APPROVED, _E.STOP): _S.STOPPED,
    # Another leader continues.
    (_S.CARRYING_OUT, _E.BEGIN): _S.CARRYING_OUT,
    (_S.CARRYING_OUT, _E.SETTLED): _S.DONE,
    (_S.CARRYING_OUT, _E.STOP): _S.STOPPED,
    (_S.CARRYING_OUT, _E.STUCK): _S.STOPPED,
    # The decision in progress when it was stopped may have been the last one.
    (_S.STOPPED, _E.SETTLED): _S.STOPPED,
    (_S.STOPPED, _E.STUCK): _S.STOPPED,
}

OPEN: Final = frozenset({_S.APPROVED, _S.CARRYING_OUT})

step: Final = StateMachine("approved plan", TRANSITIONS).step


class Fate(StrEnum):
    """Fate of one decision: one letter each, so that thousands are one short text."""

    WAITING = "."
    DONE = "d"
    OBSOLETE = "o"
    FAILED = "f"


Fates = tuple[Fate, ...]


@dataclass(frozen=True, slots=True)
class ApprovalProgress:
    """State of a plan's decisions in a view.

    Attributes:
        fates: of all decisions.
        waiting: decisions that may be proposed now, by their index in the plan.
    """

    fates: Fates
    waiting: Mapping[int, Action]


def check_progress(
    view: ClusterView, decisions: Sequence[Action], fates: Fates
) -> ApprovalProgress:
    """Mark decisions that already hold as done: an earlier leader may have died unrecorded."""
    known, waiting = list(fates), {}
    for place, decision in enumerate(decisions):
        if known[place] is not Fate.WAITING:
            continue
        if _is_so_already(view, decision):
            known[place] = Fate.DONE
        else:
            waiting[place] = decision
    return ApprovalProgress(tuple(known), waiting)


def _is_so_already(view: ClusterView, decision: Action) -> bool:
    if any(view.is_busy(bundle) for bundle in decision.bundles):
        return False
    match decision:
        case Transfer() | Assign():
            bundle_view = view.bundles.get(decision.bundle)
            return bundle_view is not None and bundle_view.owner == decision.destination
        case Split():
            is_known = decision.bundle.namespace in view.rings
            return is_known and not view.is_in_ring(decision.bundle)
        case Merge():
            return view.is_in_ring(decision.left.joined(decision.right))
        case Unload():
            return False


def mark_refused(
    waiting: Mapping[int, Action], fates: Fates, skipped: Sequence[Skip]
) -> tuple[Fates, tuple[Skip, ...]]:
    """Mark skipped decisions as obsolete, except those that only wait for a budget.

    Also returns the skips that are final.
    """
    places = {str(bundle): place for place, each in waiting.items() for bundle in each.bundles}
    known = list(fates)
    final = tuple(skip for skip in skipped if not waits_its_turn(skip) and skip.subject in places)
    for skip in final:
        known[places[skip.subject]] = Fate.OBSOLETE
    return tuple(known), final


def record_results(
    waiting: Mapping[int, Action],
    fates: Fates,
    tried: Sequence[Action],
    done: frozenset[tuple[Bundle, ...]],
) -> Fates:
    """Record the results of ``tried``; ``done`` has the bundles of each success."""
    places = {each.bundles: place for place, each in waiting.items()}
    known = list(fates)
    for decision in tried:
        is_done = decision.bundles in done
        known[places[decision.bundles]] = Fate.DONE if is_done else Fate.FAILED
    return tuple(known)
