"""``balance``: our own shedding strategy, its memory, and the planner's result as decisions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import TYPE_CHECKING, Any, Final

from broker_ctl.core.cluster.decisions import Decision, Reason, Skip, Transfer
from broker_ctl.core.cluster.directives import drain_proposals
from broker_ctl.core.cluster.view import BundleView, ClusterView, participants, room_text, too_few
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.rules.leader_rules import BalanceRules, Band, SheddingRules
from broker_ctl.core.strategies.balance import bursts
from broker_ctl.core.strategies.balance import slowness as slow
from broker_ctl.core.strategies.balance.demands import Resources
from broker_ctl.core.strategies.balance.levels import Levels, levels_of
from broker_ctl.core.strategies.balance.memory import BalanceMemory, track_moves
from broker_ctl.core.strategies.balance.slowness import sample_costs
from broker_ctl.core.strategies.placement.filters import broken_limits, is_cluster_full, limit_skips
from broker_ctl.core.strategies.splitting.candidates import REMEDY, hot_topic_of

if TYPE_CHECKING:
    from broker_ctl.core.cluster.columns import Floats
    from broker_ctl.core.strategies.balance.obstacles import Obstacles
    from broker_ctl.core.strategies.balance.planner import Move, Relief
    from broker_ctl.core.strategies.balance.planner_input import PlannerInput


# Decisions for brokers that are beyond their limits, or beyond a topic's cap.


def limit_moves(
    view: ClusterView, memory: BalanceMemory, rules: SheddingRules, ineligible: frozenset[str]
) -> list[Decision]:
    """Moves that bring brokers back within limits and caps; a skip for each that has no way.

    Where all brokers are beyond their limits nothing moves: it would change whose limit is broken.
    """
    balance = rules.balance
    reasons = broken_limits(view, balance.limits, balance.topic_cap)
    if not reasons or is_cluster_full(view, balance.limits):
        return []
    from broker_ctl.core.strategies.balance.limits import relieve_hard
    from broker_ctl.core.strategies.balance.planner_input import PlannerContext, build_input

    context = PlannerContext(
        memory.demands.steady_of,
        memory.left,
        rules.report_ttl_s,
        rules.excluded_namespaces,
        ineligible,
    )
    found = build_input(view, context, balance)
    relief = relieve_hard(found.problem, balance.band, balance.most_moves)
    decisions: list[Decision] = []
    for move in relief.moves:
        bundle_view = found.bundles[move.bundle]
        source = view.brokers[found.brokers[move.source]]
        destination = view.brokers[found.brokers[move.destination]]
        reason, text = reasons.get(source.broker_id, (Reason.CAPACITY, ""))
        decisions.append(
            Transfer(
                bundle=bundle_view.bundle,
                source=source.broker_id,
                destination=destination.broker_id,
                reason=reason,
                detail=f"{source.broker_id} has {text}",
                load_vector=bundle_view.load_vector,
                source_before=source.expected,
                destination_before=destination.expected,
            )
        )
    for broker in relief.stuck:
        reason, text = reasons.get(found.brokers[broker], (Reason.CAPACITY, ""))
        words = f"{text}, until another broker has room for what it would give"
        decisions.append(Skip(found.brokers[broker], reason, words))
    return decisions


# Turns the planner's result into decisions with load, bound and reason.


_HOUR_S: Final = 3600.0
_NO_LOAD: Final = 0.0005
_HIGH_KEY: Final = "loadBalancerPlannerHighPercentage"
_BAND_KEYS: Final = f"the band ({_HIGH_KEY})"


@dataclass(frozen=True, slots=True)
class PlanReport:
    """The planner's result on a view.

    Attributes:
        obstacles: what keeps brokers too full.
        note: what else counts; empty: nothing.
    """

    view: ClusterView
    planner_input: "PlannerInput"
    relief: "Relief"
    obstacles: "Obstacles"
    rules: BalanceRules
    note: str = ""

    def moves(self, imposed_bytes: float, *, is_urgent: bool) -> list[Decision]:
        """Transfers; those that are not urgent within the hour's churn limit.

        What was moved to other brokers by others (``imposed_bytes``) may move again on top of it.
        """
        view, ratio = self.view, self.rules.churn_ratio
        whole_bytes = fsum(each.expected.throughput_bytes for each in view.brokers.values())
        allowed = ratio * whole_bytes + imposed_bytes
        moved_bytes = fsum(
            past.throughput_bytes for past in view.settled if view.taken_at_s - past.at_s < _HOUR_S
        )
        decisions: list[Decision] = []
        usage, surging = self._usage_before(), _surging_brokers(view)
        for move in self.relief.moves:
            transfer = self._transfer(move, usage, surging)
            moved_bytes += transfer.load_vector.throughput_bytes
            if moved_bytes > allowed and not is_urgent:
                text = (
                    f"{ratio:.0%} of the load have moved within the hour, the most "
                    "(loadBalancerPlannerChurnPercentagePerHour), "
                    + room_text(view, moved_bytes - allowed)
                )
                decisions.append(Skip(str(transfer.bundle), Reason.BUDGET_HOURLY_LOAD, text))
                break
            decisions.append(transfer)
        return decisions

    def _usage_before(self) -> dict[int, float]:
        """Usage of each broker that moves touch, before the first of them."""
        usage: dict[int, float] = {}
        for move in self.relief.moves:
            usage.setdefault(move.source, move.source_before)
            usage.setdefault(move.destination, move.destination_before)
        return usage

    def _transfer(
        self, move: "Move", usage: Mapping[int, float], surging: frozenset[str]
    ) -> Transfer:
        bundle_view = self.planner_input.bundles[move.bundle]
        source = self.view.brokers[self.planner_input.brokers[move.source]]
        destination = self.view.brokers[self.planner_input.brokers[move.destination]]
        mean = self.relief.mean_of[move.source] or 1.0
        # The plan reorders moves and drops some: the text must be right wherever the move is, so
        # it does not say what the move leads to.
        detail = (
            f"{usage[move.source] / mean:.2f} and {usage[move.destination] / mean:.2f} times the "
            f"mean usage {mean:.1%} before the plan; {self._bound_text(move.source)}"
        )
        return Transfer(
            bundle=bundle_view.bundle,
            source=source.broker_id,
            destination=destination.broker_id,
            reason=Reason.SURGE if source.broker_id in surging else Reason.IMBALANCE,
            detail=detail,
            load_vector=bundle_view.load_vector,
            source_before=source.expected,
            destination_before=destination.expected,
        )

    def stuck(self) -> list[Decision]:
        """Skips for brokers that stay too full: what holds them back, or that nothing fits."""
        found: list[Decision] = []
        for number, usage in self.relief.stuck:
            mean = self.relief.mean_of[number] or 1.0
            broker_id = self.planner_input.brokers[number]
            text = f"{usage / mean:.2f} times the mean usage {mean:.1%}"
            obstacle = self.obstacles.of(number)
            if obstacle is not None:
                found.append(Skip(broker_id, obstacle.reason, f"{text}: {obstacle.text}"))
                continue
            text = f"{text}, and no bundle of it fits anywhere within {_BAND_KEYS}"
            hot = self._hot_topic(broker_id, usage - self.rules.band.trigger(mean))
            if hot is None:
                text = f"{text}, until loads change; {self._bound_text(number)}"
                found.append(Skip(broker_id, Reason.NO_GAIN, text))
                continue
            text = f"{text}; of {hot.bundle} {hot_topic_of(hot)}: {REMEDY}"
            found.append(Skip(broker_id, Reason.HOT_TOPIC, text))
        return found

    def _hot_topic(self, broker_id: str, excess: float) -> BundleView | None:
        """The broker's heaviest bundle, if it is one topic without which it were not too full."""
        broker = self.view.brokers[broker_id]
        owned = [self.view.bundles[each] for each in broker.owned]
        if not owned:
            return None
        heaviest = max(owned, key=lambda each: (each.load_vector.usage_ratio, each.bundle))
        is_enough = heaviest.load_vector.usage_on(broker.size_ratio) >= excess
        return heaviest if is_enough and hot_topic_of(heaviest) else None

    def _bound_text(self, broker: int) -> str:
        bound = self.obstacles.bound_of(broker)
        text = f"even the best placement leaves the fullest broker at {bound:.2f} times the mean"
        return f"{text}; {self.note}" if self.note else text


def headroom_skips(view: ClusterView, memory: BalanceMemory, rules: BalanceRules) -> list[Decision]:
    """Skips where the cluster is too small to lose a broker, or a failure domain."""
    import numpy as np

    from broker_ctl.core.strategies.balance.headroom import (
        after_domain_loss,
        has_headroom,
        headroom_text,
        loss_text,
    )

    levels = memory.levels
    ids = list(levels.usage)
    if not ids:
        return []
    load = np.array([levels.load[each] for each in ids], np.float64)
    capacity = np.array([levels.capacity[each] for each in ids], np.float64)
    found: list[Decision] = []
    if not has_headroom(load, capacity, rules.headroom_ratio):
        text = headroom_text(ids, load, capacity, rules.headroom_ratio)
        found.append(Skip("cluster", Reason.HEADROOM, text))
    domains = [view.constraints.domain(each) for each in ids]
    lost = after_domain_loss(load, capacity, domains)
    if lost is not None and lost[0] > rules.headroom_ratio:
        usage, name = lost
        others = len(ids) - domains.count(name)
        text = loss_text(f"failure domain {name}", others, usage, rules.headroom_ratio)
        found.append(Skip("cluster", Reason.HEADROOM, text))
    return found


def _surging_brokers(view: ClusterView) -> frozenset[str]:
    """Brokers that carry something that has surged."""
    if not view.surges:
        return frozenset()
    carriers = (view.carrier(each) for each in view.bundles if view.surge_of(each) is not None)
    return frozenset(each for each in carriers if each is not None)


def surge_skips(view: ClusterView, memory: BalanceMemory) -> list[Decision]:
    """A note for each surge, whether it leads to moves or not."""
    known = memory.demands.known
    found: list[Decision] = []
    for subject, surge in view.surges.items():
        text = "its demand of now counts, not its average"
        demand = known.get(subject) if isinstance(subject, Bundle) else None
        if demand is not None and demand.steady != demand.recent:
            text = "it has come and gone before, so its average counts"
        found.append(Skip(str(subject), Reason.SURGE, f"{surge.text}; {text}"))
    return found


def balanced_skip(memory: BalanceMemory, rules: BalanceRules) -> Skip:
    """A skip that says that no broker is too full."""
    levels = memory.levels
    fullest = max(levels.usage, key=lambda each: (levels.ratio(each), levels.usage[each], each))
    # What is shown as 0.0% is not compared.
    if levels.usage[fullest] < _NO_LOAD:
        return Skip("cluster", Reason.BELOW_THRESHOLD, "no broker has any load to speak of")
    trigger = rules.band.trigger(levels.mean_of(fullest))
    text = f"{_usage_text(levels, fullest)} at most, up to {trigger:.1%} is tolerated"
    return Skip("cluster", Reason.BELOW_THRESHOLD, f"{text} ({_HIGH_KEY})")


def _usage_text(levels: Levels, broker_id: str) -> str:
    mean = levels.mean_of(broker_id)
    return f"{broker_id} has {levels.ratio(broker_id):.2f} times the mean usage {mean:.1%}"


# ``balance``: our own shedding strategy, the planner behind the signature of the others.
#
# Docs: planner-sources. What it does not do by itself: bundles above a share of a mean broker are
# split (`core.splitting`), cold ones merged (`core.merging`), drained brokers emptied
# (`core.draining`); all of it goes into one plan.


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

    from broker_ctl.core.strategies.balance.obstacles import Obstacles
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
