"""One cycle: from a view and the memory of earlier cycles to a plan (docs: load-balancing)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Final, Self

from broker_ctl.core.cluster.decisions import Decision, Reason, Skip
from broker_ctl.core.cluster.imbalance import imbalance
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.counting import Streaks
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.planning.order import ordered
from broker_ctl.core.planning.plan import Plan, plan
from broker_ctl.core.rules.leader_rules import (
    Budgets,
    MergeRules,
    PlacementRules,
    SheddingRules,
    SplitRules,
)
from broker_ctl.core.rules.limits import NO_QUIET_HOURS, QuietHours
from broker_ctl.core.strategies import merging as merges
from broker_ctl.core.strategies.balance.memory import BalanceMemory
from broker_ctl.core.strategies.balance.policy import BalancePlanner
from broker_ctl.core.strategies.balance.slowness import SlownessRecord
from broker_ctl.core.strategies.placement.strategies import PlacementPolicy
from broker_ctl.core.strategies.shedding.lifting import tried
from broker_ctl.core.strategies.shedding.policy import Memory, SequenceMemory, SheddingPolicy
from broker_ctl.core.strategies.shedding.threshold import ThresholdMemory
from broker_ctl.core.strategies.shedding.transfer import TransferMemory
from broker_ctl.core.strategies.splitting import candidates as splits

# One cycle: from a view and the memory of earlier cycles to a plan (docs: load-balancing).
#
# The leader (views from reports) and the simulator (views from a scenario) run the same
# strategies, memory and order.


_IN_FLIGHT: Final = frozenset({Reason.BUDGET_BROKER, Reason.BUDGET_CLUSTER})


@dataclass(frozen=True, slots=True)
class CycleRules:
    """Policies of a cycle with their rules.

    Attributes:
        shedding: None if shedding is off (loadBalancerSheddingEnabled).
        splitting: None if splitting is off (loadBalancerAutoBundleSplitEnabled).
        merging: None if merging is off (loadBalancerAutoBundleMergeEnabled).
        whole_hours: hours without splits and merges: hot and cold bundles are remembered, and split
            or merged afterwards (loadBalancerQuietHours with loadBalancerQuietHoursHoldSplits).
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
        """Return whether splits or merges are on."""
        return self.splitting is not None or self.merging is not None

    @property
    def under_plan(self) -> Self:
        """The rules while a plan from the daily profile is in force (`core.balance.profile`)."""
        shedding = self.shedding_rules
        planned = replace(shedding, balance=shedding.balance.under_plan)
        return replace(self, shedding_rules=planned)


@dataclass(frozen=True, slots=True)
class CycleMemory:
    """Memory between cycles; a plain value.

    Attributes:
        policy: the strategy that wrote ``memory``.
        hot: number of consecutive rounds in which a bundle was above a limit of a split.
        cold: number of consecutive rounds in which two adjacent bundles had little traffic.
    """

    policy: SheddingPolicy[Any] | None = None
    memory: Any = None
    hot: Streaks[Bundle] = field(default_factory=Streaks)
    cold: Streaks[merges.Pair] = field(default_factory=Streaks)


def decide(
    remembered: CycleMemory,
    view: ClusterView,
    rules: CycleRules,
    *,
    is_shed_due: bool = True,
    is_split_due: bool = True,
) -> tuple[CycleMemory, Plan]:
    """Plan one cycle, and return the memory for the next one.

    Raises:
        InvariantBroken: the plan would violate an invariant; nothing of it may be executed.
    """
    remembered, proposals = propose(
        remembered, view, rules, is_shed_due=is_shed_due, is_split_due=is_split_due
    )
    return remembered, plan_proposals(view, proposals, rules)


def propose(
    remembered: CycleMemory,
    view: ClusterView,
    rules: CycleRules,
    *,
    is_shed_due: bool,
    is_split_due: bool,
) -> tuple[CycleMemory, list[Decision]]:
    """Proposals of the strategies that are due; the memory of the others stays."""
    proposals: list[Decision] = []
    if is_split_due:
        remembered, reshaped = _reshape(remembered, view, rules)
        proposals += reshaped
    if is_shed_due and rules.shedding is not None:
        remembered, shed = _shed(remembered, rules.shedding, view, rules.shedding_rules)
        proposals += shed
    return remembered, proposals


def plan_proposals(view: ClusterView, proposals: Iterable[Decision], rules: CycleRules) -> Plan:
    """Merge proposals under the budgets of the rules, and order the moves.

    Raises:
        InvariantBroken: the plan would violate an invariant; nothing of it may be executed.
    """
    found = plan(
        view,
        proposals,
        placement=rules.placement,
        placement_rules=rules.placement_rules,
        budgets=rules.budgets,
    )
    weights = rules.shedding_rules.balance.weights
    made = ordered(view, found.decisions, weights, rules.placement_rules)
    found = replace(found, decisions=made.decisions, order=made.order)
    if not made.postponed:
        return found
    after = imbalance(reduce(ClusterView.after, made.decisions, view))
    return replace(found, skipped=(*found.skipped, *made.postponed), after=after)


def is_cut_short(plan: Plan) -> bool:
    """Return whether moves in flight held decisions back: a budget of them, or their room."""
    is_over_budget = any(skip.reason in _IN_FLIGHT for skip in plan.skipped)
    return is_over_budget or plan.order.postponed > 0


def _reshape(
    remembered: CycleMemory, view: ClusterView, rules: CycleRules
) -> tuple[CycleMemory, list[Decision]]:
    """Propose splits of hot bundles and merges of cold neighbours."""
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
        proposals = [_hold(each, detail) for each in proposals]
    return replace(remembered, hot=hot, cold=cold), proposals


def _hold(proposal: Decision, detail: str) -> Decision:
    """Turn a proposal into a skip until the quiet hours end."""
    if isinstance(proposal, Skip):
        return proposal
    return Skip(str(proposal.bundles[0]), Reason.QUIET_HOURS, f"{detail}; {proposal.detail}")


def _shed(
    remembered: CycleMemory, policy: SheddingPolicy[Any], view: ClusterView, rules: SheddingRules
) -> tuple[CycleMemory, Sequence[Decision]]:
    # A policy cannot read the memory of another one.
    memory = remembered.memory if policy is remembered.policy else policy.recall(None)
    memory = policy.observe(memory, view, rules)
    proposals = policy.shed(view, memory, rules)
    if not isinstance(policy, BalancePlanner):
        proposals = tried(policy, view, memory, rules, proposals)
    return replace(remembered, policy=policy, memory=memory), proposals


# What strategies remember of brokers: usage averages (Pulsar's ``max_ema``), and slowness.
#
# Docs: pulsar-shedders, cruise-control.


def usage_averages(memory: Memory | None) -> Mapping[str, float]:
    """Moving average of each broker's usage, 1.0 is full; empty if the strategy keeps none.

    With several strategies, the averages of the first one that keeps any.
    """
    match memory:
        case BalanceMemory():
            return memory.levels.usage
        case ThresholdMemory() | TransferMemory():
            return memory.history
        case SequenceMemory():
            kept = (usage_averages(each) for each in memory.memories.values())
            return next(filter(None, kept), {})
        case _:
            return {}


def slow_records(memory: Memory | None) -> Mapping[str, SlownessRecord]:
    """Score and evidence of each broker that was judged; empty if the strategy judges none."""
    match memory:
        case BalanceMemory():
            return memory.slow.brokers
        case SequenceMemory():
            kept = (slow_records(each) for each in memory.memories.values())
            return next(filter(None, kept), {})
        case _:
            return {}
