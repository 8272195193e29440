"""``balance``: our own shedding strategy, the planner behind the signature of the others.

Docs: planner-sources. What it does not do by itself: bundles above a share of a
mean broker are split (`core.splitting`), cold ones merged (`core.merging`), drained brokers emptied
(`core.draining`); all of it goes into one plan.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from broker_ctl.core.cluster.decisions import Decision, Reason, Skip, Transfer
from broker_ctl.core.cluster.draining import drain_proposals
from broker_ctl.core.cluster.participants import participants, too_few
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.rules.balance import Band
from broker_ctl.core.rules.rules import SheddingRules
from broker_ctl.core.strategies.balance import slow
from broker_ctl.core.strategies.balance.cost import sampled
from broker_ctl.core.strategies.balance.levels import levels_of
from broker_ctl.core.strategies.balance.memory import BalanceMemory, moved
from broker_ctl.core.strategies.balance.plan_report import PlanReport, even, without_headroom
from broker_ctl.core.strategies.balance.resources import Demand, Resources


class BalancePlanner:
    """Brings brokers that are too full back into a band, with the fewest moves."""

    def recall(self, row: Mapping[str, Any] | None) -> BalanceMemory:
        """The memory that ``to_row`` wrote; an empty one for None."""
        return BalanceMemory() if row is None else BalanceMemory.of_row(row)

    def observe(
        self, memory: BalanceMemory, view: ClusterView, rules: SheddingRules
    ) -> BalanceMemory:
        """Take one more reading of every bundle and broker, and see who moved."""
        balance = rules.balance
        resources = Resources.of(view, balance.weights)
        demands = memory.demands.after(view, resources, balance.smoothing)
        homes, left = moved(memory, view, balance.return_s)
        levels = levels_of(view, resources, demands, homes)
        samples = sampled(view, balance.weights)
        slowness = slow.observe(memory.slow, samples, balance.slow)
        return BalanceMemory(demands, levels, homes, left, slowness)

    def shed(
        self, view: ClusterView, memory: BalanceMemory, rules: SheddingRules
    ) -> tuple[Decision, ...]:
        """The moves, each to a receiver of its own, and why other brokers keep what they have."""
        balance = rules.balance
        verdicts = slow.verdicts(memory.slow, balance.slow)
        brokers, skipped = participants(view, rules)
        decisions: list[Decision] = [*skipped, *slow.told(verdicts)]
        if len(brokers) < 2:
            return (*decisions, too_few(view, len(brokers)))
        decisions += without_headroom(memory, balance)
        removed = [each for each, verdict in verdicts.items() if verdict.is_drained]
        decisions += drain_proposals(view, removed, Reason.SLOW_BROKER)
        shy = frozenset(each for each, verdict in verdicts.items() if not verdict.can_receive)
        relieved = _relieved(view, memory, rules, shy)
        return (*decisions, *(relieved or [even(memory, balance)]))


def _relieved(
    view: ClusterView, memory: BalanceMemory, rules: SheddingRules, shy: frozenset[str]
) -> list[Decision]:
    """First what cannot wait, judged by the last minute; else what can, by the last half hour."""
    balance, levels = rules.balance, memory.levels
    urgent: list[Decision] = []
    trouble = levels.in_trouble(balance)
    if trouble:
        task = _Task(
            memory.demands.recent, frozenset(trouble), shy, balance.trouble, is_urgent=True
        )
        urgent = _planned(view, memory, rules, task)
        # Who cannot be helped must not keep all others waiting.
        if any(isinstance(each, Transfer) for each in urgent):
            return urgent
    full = levels.too_full(balance)
    if full and balance.quiet.is_quiet(view.taken_at_ms):
        detail = balance.quiet.detail(view.taken_at_ms)
        return [
            Skip(each, Reason.QUIET_HOURS, f"{detail}; {levels.ratio(each):.2f} of the mean")
            for each in full
        ]
    if full:
        # Where brokers differ in size the mean moves, and others may be above it in the end.
        task = _Task(
            memory.demands.steady, frozenset(view.brokers), shy, balance.band, is_urgent=False
        )
        return _planned(view, memory, rules, task)
    return urgent


@dataclass(frozen=True, slots=True)
class _Task:
    """Which brokers are to be relieved, by which demands, how far, and whether it can wait."""

    demand_of: Callable[[Bundle], Demand | None]
    givers: frozenset[str]
    shy: frozenset[str]
    band: Band
    is_urgent: bool


def _planned(
    view: ClusterView, memory: BalanceMemory, rules: SheddingRules, task: _Task
) -> list[Decision]:
    import numpy as np

    from broker_ctl.core.strategies.balance.bound import imbalance_bound
    from broker_ctl.core.strategies.balance.planner import relieve
    from broker_ctl.core.strategies.balance.planner_input import PlannerContext, build_input

    around = PlannerContext(
        task.demand_of, memory.left, rules.report_ttl_s, rules.excluded_namespaces, task.shy
    )
    picture = build_input(view, around, rules.balance)
    problem = picture.problem
    is_giving = problem.is_giving & np.isin(picture.brokers, list(task.givers))
    relief = relieve(replace(problem, is_giving=is_giving), task.band, rules.balance.most_moves)
    telling = PlanReport(view, picture, relief, imbalance_bound(problem), rules.balance)
    return [*telling.moves(is_urgent=task.is_urgent), *telling.stuck()]
