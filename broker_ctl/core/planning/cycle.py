"""One cycle's deciding: from a view and what is remembered to a plan (docs: load-balancing).

The strategies, their memory and the order in which they are asked are the same wherever a cycle is
run: the leader takes its view from reports, the simulator from a scenario.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from broker_ctl.core.cluster.decisions import Decision, Reason, Skip
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.streaks import Streaks
from broker_ctl.core.planning.plan import Plan, plan
from broker_ctl.core.rules.quiet_hours import NO_QUIET_HOURS, QuietHours
from broker_ctl.core.rules.rules import (
    Budgets,
    MergeRules,
    PlacementRules,
    SheddingRules,
    SplitRules,
)
from broker_ctl.core.strategies.merging import candidates as merges
from broker_ctl.core.strategies.placement.policy import PlacementPolicy
from broker_ctl.core.strategies.shedding.policy import SheddingPolicy
from broker_ctl.core.strategies.splitting import candidates as splits

_IN_FLIGHT: Final = frozenset({Reason.BUDGET_BROKER, Reason.BUDGET_CLUSTER})


@dataclass(frozen=True, slots=True)
class DecidingRules:
    """Policies with their rules.

    Attributes:
        shedding: None: nothing is shed (loadBalancerSheddingEnabled).
        splitting: None: nothing is split (loadBalancerAutoBundleSplitEnabled).
        merging: None: nothing is merged (loadBalancerAutoBundleMergeEnabled).
        whole_hours: when bundles stay as they are: what is hot or cold is remembered, and split or
            merged after them (loadBalancerQuietHours with loadBalancerQuietHoursHoldSplits).
    """

    placement: PlacementPolicy
    shedding: SheddingPolicy[Any] | None = None
    splitting: SplitRules | None = None
    merging: MergeRules | None = None
    whole_hours: QuietHours = NO_QUIET_HOURS
    shedding_rules: SheddingRules = field(default_factory=SheddingRules)
    placement_rules: PlacementRules = field(default_factory=PlacementRules)
    budgets: Budgets = field(default_factory=Budgets)

    @property
    def is_reshaping(self) -> bool:
        """Whether rings are changed at all."""
        return self.splitting is not None or self.merging is not None

    @property
    def under_plan(self) -> Self:
        """While a plan from the daily profile is in force (`core.balance.profile`)."""
        shedding = self.shedding_rules
        planned = replace(shedding, balance=shedding.balance.under_plan)
        return replace(self, shedding_rules=planned)


@dataclass(frozen=True, slots=True)
class CycleMemory:
    """What is kept from cycle to cycle; a plain value.

    Attributes:
        policy: whose memory ``memory`` is.
        hot: in how many rounds in a row a bundle was above a limit of a split.
        cold: in how many rounds in a row two neighbours had little to do.
    """

    policy: SheddingPolicy[Any] | None = None
    memory: Any = None
    hot: Streaks[Bundle] = field(default_factory=Streaks)
    cold: Streaks[merges.Pair] = field(default_factory=Streaks)


def decided(
    remembered: CycleMemory,
    view: ClusterView,
    rules: DecidingRules,
    *,
    is_shed_due: bool = True,
    is_split_due: bool = True,
) -> tuple[CycleMemory, Plan]:
    """What one cycle does, and what the next one knows of it.

    Raises:
        InvariantBroken: the plan would break a safety sentence; nothing of it may be done.
    """
    remembered, proposals = propose(
        remembered, view, rules, is_shed_due=is_shed_due, is_split_due=is_split_due
    )
    return remembered, plan_proposals(view, proposals, rules)


def propose(
    remembered: CycleMemory,
    view: ClusterView,
    rules: DecidingRules,
    *,
    is_shed_due: bool,
    is_split_due: bool,
) -> tuple[CycleMemory, list[Decision]]:
    """What the strategies want that are due; the others remember what they did."""
    proposals: list[Decision] = []
    if is_split_due:
        remembered, reshaped = _reshaped(remembered, view, rules)
        proposals += reshaped
    if is_shed_due and rules.shedding is not None:
        remembered, shed = _shed(remembered, rules.shedding, view, rules.shedding_rules)
        proposals += shed
    return remembered, proposals


def plan_proposals(view: ClusterView, proposals: Iterable[Decision], rules: DecidingRules) -> Plan:
    """Merge proposals under the budgets of the rules.

    Raises:
        InvariantBroken: the plan would break a safety sentence; nothing of it may be done.
    """
    return plan(
        view,
        proposals,
        placement=rules.placement,
        placement_rules=rules.placement_rules,
        budgets=rules.budgets,
    )


def is_cut_short(plan: Plan) -> bool:
    """Whether more would move as soon as what is planned has arrived."""
    return any(skip.reason in _IN_FLIGHT for skip in plan.skipped)


def _reshaped(
    remembered: CycleMemory, view: ClusterView, rules: DecidingRules
) -> tuple[CycleMemory, list[Decision]]:
    """What is too much for one bundle, and what is too little for two."""
    proposals: list[Decision] = []
    hot: Streaks[Bundle] = Streaks()
    cold: Streaks[merges.Pair] = Streaks()
    if rules.splitting is not None:
        hot = splits.observe(remembered.hot, view, rules.splitting)
        proposals += splits.candidates(view, rules.splitting, hot)
    if rules.merging is not None:
        cold = merges.observe(remembered.cold, view, rules.merging)
        proposals += merges.candidates(view, rules.merging, cold)
    if rules.whole_hours.is_quiet(view.taken_at_ms):
        detail = rules.whole_hours.detail(view.taken_at_ms)
        proposals = [_held(each, detail) for each in proposals]
    return replace(remembered, hot=hot, cold=cold), proposals


def _held(proposal: Decision, detail: str) -> Decision:
    """What waits for the end of the quiet hours."""
    if isinstance(proposal, Skip):
        return proposal
    return Skip(str(proposal.bundles[0]), Reason.QUIET_HOURS, f"{detail}; {proposal.detail}")


def _shed(
    remembered: CycleMemory, policy: SheddingPolicy[Any], view: ClusterView, rules: SheddingRules
) -> tuple[CycleMemory, Sequence[Decision]]:
    # What one policy remembers says nothing to another.
    memory = remembered.memory if policy is remembered.policy else policy.recall(None)
    memory = policy.observe(memory, view, rules)
    proposals = policy.shed(view, memory, rules)
    return replace(remembered, policy=policy, memory=memory), proposals
