"""Plans that a leader has shown, and proposals: those that an operator has put up for approval.

To look at a plan proposes nothing. A proposal is an act of a role: it ends after ten minutes, and
its digest covers all that would be done, so that an approval cannot mean anything else.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker_ctl.codec import encode
from broker_ctl.core.cluster.decisions import Action
from broker_ctl.core.cluster.directives import AuditInfo
from broker_ctl.core.planning.plan import Plan
from broker_ctl.errors import DualAuthorizationRequired, OrderConflict, PlanMissing

# Maximum number of plans that are kept for readers, and the time until one expires.
_MAX_PLANS: Final = 16
_EXPIRY_S: Final = 600.0
# Nobody's proposals take the place of another's.
_MAX_PROPOSALS: Final = 32
_MAX_OF_ROLE: Final = 4
ID_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """A plan that a leader has computed for a reader.

    Attributes:
        digest: of the decisions, their epoch and whether the plan stays in force.
        at_s: when it was asked for last.
        row: the plan as it was shown.
        in_force_until_ms: see `core.plan_file.HOLDS_MS`; 0: not beyond its execution.
    """

    digest: str
    decisions: tuple[Action, ...]
    at_s: float
    row: Mapping[str, Any]
    in_force_until_ms: int = 0

    @property
    def plan_id(self) -> str:
        """The beginning of the digest."""
        return self.digest[:ID_DIGITS]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan that waits for an approval; nothing of it changes.

    Attributes:
        order: who has proposed it, when and why.
        ends_s: when it expires, by the clock of the leader.
    """

    plan: ShownPlan
    order: AuditInfo
    ends_s: float

    def to_row(self) -> dict[str, Any]:
        """The plan as it was shown, by whom it was proposed and when that ends."""
        return {
            **self.plan.row,
            "proposed_by": self.order.who,
            "proposed_ms": self.order.at_ms,
            "proposal_reason": self.order.why,
            "expires_ms": self.order.at_ms + round(_EXPIRY_S * 1000),
        }


class ProposedPlans:
    """Shown and proposed plans of one term, by id."""

    def __init__(self) -> None:
        self._shown: OrderedDict[str, ShownPlan] = OrderedDict()
        self._proposals: dict[str, Proposal] = {}

    def show(self, plan: ShownPlan) -> None:
        """Keep a plan that was shown, so that it can be named; the oldest is dropped."""
        self._shown[plan.plan_id] = plan
        self._shown.move_to_end(plan.plan_id)
        if len(self._shown) > _MAX_PLANS:
            self._shown.popitem(last=False)

    def find(self, plan_id: str, now_s: float) -> ShownPlan:
        """A plan by its id; of one that was proposed, the proposed one.

        Raises:
            PlanMissing: the plan was neither shown nor proposed, or has expired.
        """
        proposal = self.proposal(plan_id, now_s)
        if proposal is not None:
            return proposal.plan
        shown = self._shown.get(plan_id)
        if shown is None or now_s - shown.at_s > _EXPIRY_S:
            raise PlanMissing(
                f"this leader has shown no plan {plan_id[:40]} within {_EXPIRY_S:.0f} s: "
                "ask for a plan again"
            )
        return shown

    def proposal(self, plan_id: str, now_s: float) -> Proposal | None:
        """The proposal of a plan; None: nobody has proposed it, or that has expired."""
        return next((one for one in self.proposals(now_s) if one.plan.plan_id == plan_id), None)

    def proposals(self, now_s: float) -> list[Proposal]:
        """What waits for an approval, the oldest first."""
        self._proposals = {name: one for name, one in self._proposals.items() if now_s < one.ends_s}
        return list(self._proposals.values())

    def propose(
        self, plan_id: str, order: AuditInfo, now_s: float, *, is_dry_run: bool = False
    ) -> Proposal:
        """Put a plan that was shown up for approval; the same role's second time is the first.

        Raises:
            PlanMissing: the plan was not shown, or has expired.
            OrderConflict: it is empty, or proposed by another, or too many proposals are open.
        """
        plan, known = self.find(plan_id, now_s), self.proposal(plan_id, now_s)
        if known is not None:
            if known.order.who == order.who:
                return known
            raise OrderConflict(f"{known.order.who} has proposed plan {plan_id}: approve that one")
        if not plan.decisions:
            raise OrderConflict(f"plan {plan_id} is empty: nothing to propose")
        open_ones = self.proposals(now_s)
        of_role = sum(one.order.who == order.who for one in open_ones)
        if of_role >= _MAX_OF_ROLE or len(open_ones) >= _MAX_PROPOSALS:
            raise OrderConflict(
                f"{of_role} proposals of {order.who or 'operators'} and {len(open_ones)} in all "
                f"wait for an approval: each ends {_EXPIRY_S:.0f} s after it was made"
            )
        proposal = Proposal(plan, order, now_s + _EXPIRY_S)
        if not is_dry_run:
            self._proposals[plan_id] = proposal
        return proposal

    def to_approve(
        self, plan_id: str, who: str, digest: str, now_s: float, *, needs_second: bool
    ) -> tuple[ShownPlan, str]:
        """The plan that a role approves by the digest of what it has seen, and its proposer.

        Without a digest it is the plan of this id. With ``needs_second``, another role than ``who``
        has to have proposed it, and the digest has to be there.

        Raises:
            PlanMissing: the plan was neither shown nor proposed, or has expired.
            DualAuthorizationRequired: nobody has proposed the plan, or ``who`` has.
            OrderConflict: the digest is that of another plan, or is missing.
        """
        plan, proposal = self.find(plan_id, now_s), self.proposal(plan_id, now_s)
        if needs_second:
            _require_second(plan_id, proposal, who)
            if not digest:
                raise OrderConflict(
                    f"the approval of plan {plan_id} has to name the digest of what is approved: "
                    f"see GET /control/v1/plans/{plan_id} (dualAuthorizationEnabled=true)"
                )
        if digest and digest != plan.digest:
            raise OrderConflict(f"plan {plan_id} is not the one that was seen: show it again")
        return plan, who if proposal is None else proposal.order.who

    def close(self, plan_id: str) -> None:
        """The plan is approved: its proposal waits no more."""
        self._proposals.pop(plan_id, None)


def _require_second(plan_id: str, proposal: Proposal | None, who: str) -> None:
    """Refuse an approval that leaves the plan to one person.

    Raises:
        DualAuthorizationRequired: nobody has proposed the plan, or ``who`` has.
    """
    if proposal is None:
        raise DualAuthorizationRequired(
            f"nobody has proposed plan {plan_id} within {_EXPIRY_S:.0f} s: another role has to, "
            f"with broker-ctl plan --propose {plan_id} (dualAuthorizationEnabled=true)"
        )
    if proposal.order.who == who:
        raise DualAuthorizationRequired(
            f"{who} has proposed plan {plan_id} and cannot approve it: another role has to "
            "(dualAuthorizationEnabled=true)"
        )


def digest_of(plan: Plan, *, stays_in_force: bool = False) -> str:
    """SHA-256 of all that a plan would do: equal for equal decisions at the same epoch."""
    decisions = [decision.to_row() for decision in plan.decisions]
    fields = [plan.epoch, decisions, *(["in force"] if stays_in_force else [])]
    return hashlib.sha256(encode(fields)).hexdigest()
