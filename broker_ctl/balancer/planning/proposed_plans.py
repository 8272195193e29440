"""Plans that were proposed to operators, who may approve them by id for ten minutes."""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from broker_ctl.codec import encode
from broker_ctl.core.cluster.decisions import Action
from broker_ctl.core.planning.plan import Plan
from broker_ctl.errors import DualAuthorizationRequired, PlanMissing

# Maximum number of plans, and the time until one expires.
_MAX_PLANS: Final = 16
_EXPIRY_S: Final = 600.0
_ID_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class ProposedPlan:
    """A plan that may be approved.

    Attributes:
        at_s: when it was asked for last.
        row: the plan as it was shown.
        who: who proposed it first; empty: it was only shown to clients that may not propose.
        in_force_until_ms: see `core.plan_file.HOLDS_MS`; 0: not beyond its execution.
    """

    decisions: tuple[Action, ...]
    at_s: float
    row: Mapping[str, Any]
    who: str = ""
    in_force_until_ms: int = 0

    def check_approver(self, who: str) -> None:
        """Refuse an approval that leaves the plan to one person.

        Raises:
            DualAuthorizationRequired: nobody has proposed the plan, or ``who`` has.
        """
        if not self.who:
            raise DualAuthorizationRequired(
                "nobody who may propose plans has asked for this plan: have an operator show it "
                "(dualAuthorizationEnabled=true)"
            )
        if self.who == who:
            raise DualAuthorizationRequired(
                f"{who} has proposed this plan and cannot approve it: another role has to "
                "(dualAuthorizationEnabled=true)"
            )


class ProposedPlans:
    """Proposed plans of one term, by id."""

    def __init__(self) -> None:
        self._plans: OrderedDict[str, ProposedPlan] = OrderedDict()

    def add(self, plan_id: str, proposed: ProposedPlan) -> None:
        """Add a plan; the oldest is dropped.

        A plan keeps its proposer when other operators ask for it to review it.
        A plan that stays in force is another proposal than one with the same decisions that does
        not.
        """
        known = self._plans.get(plan_id)
        if (
            known is not None
            and known.who
            and bool(known.in_force_until_ms) == bool(proposed.in_force_until_ms)
            and proposed.at_s - known.at_s <= _EXPIRY_S
        ):
            proposed = replace(proposed, who=known.who)
        self._plans[plan_id] = proposed
        self._plans.move_to_end(plan_id)
        if len(self._plans) > _MAX_PLANS:
            self._plans.popitem(last=False)

    def find(self, plan_id: str, now_s: float) -> ProposedPlan:
        """A plan by its id.

        Raises:
            PlanMissing: the plan was not proposed, or has expired.
        """
        proposed = self._plans.get(plan_id)
        if proposed is None or now_s - proposed.at_s > _EXPIRY_S:
            raise PlanMissing(
                f"this leader has proposed no plan {plan_id[:40]} within {_EXPIRY_S:.0f} s: "
                "ask for a plan again"
            )
        return proposed


def plan_id_of(plan: Plan) -> str:
    """Id of a plan: equal for equal decisions at the same epoch."""
    fields = [plan.epoch, [decision.to_row() for decision in plan.decisions]]
    return hashlib.sha256(encode(fields)).hexdigest()[:_ID_DIGITS]
