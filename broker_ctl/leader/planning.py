"""From proposals to a plan under the rules of the moment."""

from collections.abc import Iterable

from broker_ctl.core.decisions import Decision
from broker_ctl.core.plan import Plan, plan_in_steps
from broker_ctl.core.steps import Steps, finished
from broker_ctl.core.view import ClusterView
from broker_ctl.leader.rules import LeaderRules


def planned(view: ClusterView, proposals: Iterable[Decision], rules: LeaderRules) -> Plan:
    """Merge proposals under the budgets.

    Raises:
        InvariantBroken: the plan would break a safety sentence; nothing of it may be done.
    """
    return finished(planned_in_steps(view, proposals, rules))


def planned_in_steps(
    view: ClusterView, proposals: Iterable[Decision], rules: LeaderRules
) -> Steps[Plan]:
    """As `planned`, a few proposals at a time."""
    return plan_in_steps(
        view,
        proposals,
        placement=rules.placement,
        placement_rules=rules.placement_rules,
        budgets=rules.budgets,
    )
