"""Plans that an operator was shown, and may approve by their id for a while."""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from broker_ctl.codec import encode
from broker_ctl.core.cluster.decisions import Action
from broker_ctl.core.planning.plan import Plan
from broker_ctl.errors import PlanMissing

# So many, for so long.
_MOST_SHOWN: Final = 16
_SHOWN_S: Final = 600.0
_ID_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class _Shown:
    decisions: tuple[Action, ...]
    at_s: float
    in_force_until_ms: int


class ProposedPlans:
    """Plans of one leading that somebody has seen, by their id."""

    def __init__(self) -> None:
        self._plans: OrderedDict[str, _Shown] = OrderedDict()

    def note(self, plan_id: str, plan: Plan, now_s: float, *, in_force_until_ms: int = 0) -> None:
        """It was shown; the oldest is forgotten."""
        self._plans[plan_id] = _Shown(plan.decisions, now_s, in_force_until_ms)
        self._plans.move_to_end(plan_id)
        if len(self._plans) > _MOST_SHOWN:
            self._plans.popitem(last=False)

    def decisions_of(self, plan_id: str, now_s: float) -> tuple[Action, ...]:
        """What it would do.

        Raises:
            PlanMissing: it was not shown, or too long ago.
        """
        return self._found(plan_id, now_s).decisions

    def in_force_until_ms(self, plan_id: str, now_s: float) -> int:
        """See `core.plan_file.HOLDS_MS`; 0: it is for the moment only.

        Raises:
            PlanMissing: it was not shown, or too long ago.
        """
        return self._found(plan_id, now_s).in_force_until_ms

    def _found(self, plan_id: str, now_s: float) -> _Shown:
        shown = self._plans.get(plan_id)
        if shown is None or now_s - shown.at_s > _SHOWN_S:
            raise PlanMissing(
                f"no plan {plan_id[:40]} was shown by this leader within {_SHOWN_S:.0f} s: "
                "ask for a plan again"
            )
        return shown


def plan_id_of(plan: Plan) -> str:
    """The same for whoever plans the same at the same epoch."""
    said = [plan.epoch, [decision.to_row() for decision in plan.decisions]]
    return hashlib.sha256(encode(said)).hexdigest()[:_ID_DIGITS]
