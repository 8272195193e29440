"""From proposals to a plan under the rules of the moment."""

from collections.abc import Iterable

from broker_ctl.core.decisions import Decision
from broker_ctl.core.plan import Plan, plan_in_steps
from broker_ctl.core.steps import Steps
from broker_ctl.core.view import ClusterView
from broker_ctl.leader.rules import LeaderRules


def planned_in_steps(
    view: ClusterView, proposals: Iterable[Decision], rules: LeaderRules
) -> Steps[Plan]:
    """Merge proposals under the budgets, a few at a time.

    Raises:
        InvariantBroken: the plan would break a safety sentence; nothing of it may be done.
    """
    return plan_in_steps(
        view,
        proposals,
        placement=rules.placement,
        placement_rules=rules.placement_rules,
        budgets=rules.budgets,
    )
