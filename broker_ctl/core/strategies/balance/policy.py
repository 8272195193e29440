"""``balance``: our own shedding strategy, the planner behind the signature of the others.

Docs: planner-sources. What it does not do by itself: bundles above a share of a
mean broker are split (`core.splitting`), cold ones merged (`core.merging`), drained brokers emptied
(`core.draining`); all of it goes into one plan.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import TYPE_CHECKING, Any

from broker_ctl.core.cluster.decisions import Decision, Reason, Skip, Transfer
from broker_ctl.core.cluster.draining import drain_proposals
from broker_ctl.core.cluster.participants import participants, too_few
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.rules.balance import Band
from broker_ctl.core.rules.rules import SheddingRules
from broker_ctl.core.strategies.balance import bursts, slow
from broker_ctl.core.strategies.balance.cost import sample_costs
from broker_ctl.core.strategies.balance.levels import levels_of
from broker_ctl.core.strategies.balance.limits.limit_moves import limit_moves
from broker_ctl.core.strategies.balance.memory import BalanceMemory, track_moves
from broker_ctl.core.strategies.balance.plan_report import (
    PlanReport,
    balanced_skip,
    headroom_skips,
    surge_skips,
)
from broker_ctl.core.strategies.balance.resources import Resources
from broker_ctl.core.strategies.placement.broken_limits import limit_skips

if TYPE_CHECKING:
    from broker_ctl.core.cluster.columns import Floats


class BalancePlanner:
    """Brings brokers that are too full back into a band, with the fewest moves."""

    def recall(self, row: Mapping[str, Any] | None) -> BalanceMemory:
        """The memory that ``to_row`` wrote; an empty one for None."""
        return BalanceMemory() if row is None else BalanceMemory.of_row(row)

    def observe(
        self, memory: BalanceMemory, view: ClusterView, rules: SheddingRules
    ) -> BalanceMemory:
        """Take one more reading of every bundle and broker, and track moves."""
        balance = rules.balance
        resources = Resources.of(view, balance.weights)
        demands = memory.demands.after(view, resources, balance.smoothing)
        homes, left, imposed = track_moves(memory, view, balance.return_s)
        levels = levels_of(view, resources, demands, homes, rules.report_ttl_s)
        samples = sample_costs(view, balance.weights)
        slowness = slow.observe(memory.slow, samples, balance.slow)
        courses = bursts.followed(memory.courses, view, demands, balance.bursts)
        return BalanceMemory(demands, levels, homes, left, slowness, courses, imposed)

    def shed(
        self, view: ClusterView, memory: BalanceMemory, rules: SheddingRules
    ) -> tuple[Decision, ...]:
        """Transfers with their receivers, and skips for brokers that keep what they have."""
        balance = rules.balance
        verdicts = slow.verdicts(memory.slow, balance.slow)
        brokers, skipped = participants(view, rules)
        decisions: list[Decision] = [
            *skipped,
            *limit_skips(view, balance.limits),
            *slow.demotion_skips(verdicts),
            *surge_skips(view, memory),
        ]
        if len(brokers) < 2:
            return (*decisions, too_few(view, len(brokers)))
        decisions += headroom_skips(view, memory, balance)
        removed = [each for each, verdict in verdicts.items() if verdict.is_drained]
        decisions += drain_proposals(view, removed, Reason.SLOW_BROKER)
        ineligible = frozenset(
            each for each, verdict in verdicts.items() if not verdict.can_receive
        )
        relieved = _relieve_brokers(view, memory, rules, ineligible)
        return (*decisions, *(relieved or [balanced_skip(memory, balance)]))


def _relieve_brokers(
    view: ClusterView, memory: BalanceMemory, rules: SheddingRules, ineligible: frozenset[str]
) -> list[Decision]:
    """First what is urgent, by the last minute; then limits; else the rest, by the last half hour.

    Each is planned on its own: moves of two plans could exceed a limit together.
    """
    balance, levels = rules.balance, memory.levels
    urgent: list[Decision] = []
    trouble = levels.in_trouble(balance)
    if trouble:
        task = _Task(
            memory.demands.recent_of,
            frozenset(trouble),
            ineligible,
            balance.trouble,
            is_urgent=True,
        )
        urgent = _plan_moves(view, memory, rules, task)
        # A broker that cannot be relieved must not keep all others waiting.
        if any(isinstance(each, Transfer) for each in urgent):
            return urgent
    limited = limit_moves(view, memory, rules, ineligible)
    if any(isinstance(each, Transfer) for each in limited):
        return limited
    return [*limited, *(_level_brokers(view, memory, rules, ineligible) or urgent)]


def _level_brokers(
    view: ClusterView, memory: BalanceMemory, rules: SheddingRules, ineligible: frozenset[str]
) -> list[Decision]:
    balance, levels = rules.balance, memory.levels
    full = levels.too_full(balance)
    if full and balance.quiet.is_quiet(view.taken_at_ms):
        detail = balance.quiet.detail(view.taken_at_ms)
        return [
            Skip(each, Reason.QUIET_HOURS, f"{detail}; {levels.ratio(each):.2f} times the mean")
            for each in full
        ]
    if not full:
        return []
    # Where brokers differ in size the mean moves, and others may be above it in the end.
    task = _Task(
        memory.demands.steady_of, frozenset(view.brokers), ineligible, balance.band, is_urgent=False
    )
    return _plan_moves(view, memory, rules, task)


@dataclass(frozen=True, slots=True)
class _Task:
    """Which brokers are to be relieved, by which demands, how far, and whether it can wait."""

    demands_of: Callable[[Sequence[Bundle]], "Floats"]
    givers: frozenset[str]
    ineligible: frozenset[str]
    band: Band
    is_urgent: bool


def _plan_moves(
    view: ClusterView, memory: BalanceMemory, rules: SheddingRules, task: _Task
) -> list[Decision]:
    import numpy as np

    from broker_ctl.core.strategies.balance.limits.obstacles import Obstacles
    from broker_ctl.core.strategies.balance.planner import relieve
    from broker_ctl.core.strategies.balance.planner_input import PlannerContext, build_input

    context = PlannerContext(
        task.demands_of, memory.left, rules.report_ttl_s, rules.excluded_namespaces, task.ineligible
    )
    planner_input = build_input(view, context, rules.balance)
    planned = bursts.planned_for(
        planner_input.problem,
        [each.bundle for each in planner_input.bundles],
        memory.demands,
        memory.courses,
        rules.balance.bursts,
    )
    problem = planned.problem
    is_giving = problem.is_giving & np.isin(planner_input.brokers, list(task.givers))
    problem = replace(problem, is_giving=is_giving)
    relief = relieve(problem, task.band, rules.balance.most_moves)
    obstacles = Obstacles(view, planner_input, context, rules.balance, task.band, problem, relief)
    report = PlanReport(view, planner_input, relief, obstacles, rules.balance, planned.note)
    imposed_bytes = fsum(each.throughput_bytes for each in memory.imposed)
    moves = report.moves(imposed_bytes, is_urgent=task.is_urgent)
    return [*moves, *report.stuck()]
