"""Plans that were proposed to operators, who may approve them by id for ten minutes."""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from broker_ctl.codec import encode
from broker_ctl.core.cluster.decisions import Action
from broker_ctl.core.planning.plan import Plan
from broker_ctl.errors import PlanMissing

# Maximum number of plans, and the time until one expires.
_MAX_PLANS: Final = 16
_EXPIRY_S: Final = 600.0
_ID_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class _ProposedPlan:
    decisions: tuple[Action, ...]
    at_s: float
    in_force_until_ms: int


class ProposedPlans:
    """Proposed plans of one term, by id."""

    def __init__(self) -> None:
        self._plans: OrderedDict[str, _ProposedPlan] = OrderedDict()

    def add(self, plan_id: str, plan: Plan, now_s: float, *, in_force_until_ms: int = 0) -> None:
        """Add a plan; the oldest is dropped."""
        self._plans[plan_id] = _ProposedPlan(plan.decisions, now_s, in_force_until_ms)
        self._plans.move_to_end(plan_id)
        if len(self._plans) > _MAX_PLANS:
            self._plans.popitem(last=False)

    def decisions_of(self, plan_id: str, now_s: float) -> tuple[Action, ...]:
        """The decisions of a plan.

        Raises:
            PlanMissing: the plan was not proposed, or has expired.
        """
        return self._find(plan_id, now_s).decisions

    def in_force_until_ms(self, plan_id: str, now_s: float) -> int:
        """See `core.plan_file.HOLDS_MS`; 0: not beyond its execution.

        Raises:
            PlanMissing: the plan was not proposed, or has expired.
        """
        return self._find(plan_id, now_s).in_force_until_ms

    def _find(self, plan_id: str, now_s: float) -> _ProposedPlan:
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
