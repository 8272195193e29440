"""A scenario, minute by minute, under the rules of a leader.

Docs: session-scope, stopping, load-history-sources. The strategies and their memory are the
daemon's own (`core/planning/cycle.py`). They run on a simulated cluster in which reports are late,
and a bundle that moves has no owner for a while. The same scenario, rules and pace give the same
replay to the bit.
"""

from collections import deque
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.planning.cycle import (
    CycleMemory,
    CycleRules,
    decide,
    is_cut_short,
    plan_proposals,
)
from broker_ctl.core.planning.plan import Plan
from broker_ctl.core.strategies.balance.relocations import relocations
from broker_ctl.core.strategies.splitting.new_bundles import unload_new_bundles
from broker_ctl.simulation.model.pace import Pace
from broker_ctl.simulation.model.scenario import Event, EventKind, Scenario
from broker_ctl.simulation.replay.board import Board
from broker_ctl.simulation.replay.brokers import by_minute
from broker_ctl.simulation.replay.cluster import Cluster
from broker_ctl.simulation.replay.executor import SimulatedExecutor
from broker_ctl.simulation.replay.orphans import Orphan, due_orphans, place_orphans
from broker_ctl.simulation.replay.record import Cause, Record, Replay
from broker_ctl.simulation.replay.reports import Reports, reports_of


class Cycle(NamedTuple):
    """One cycle of the simulated leader.

    Attributes:
        memory: of the shedding strategy, after it; None where nothing is shed.
    """

    view: ClusterView
    plan: Plan
    memory: Any


Watch = Callable[[Cycle], None]


def replay(
    scenario: Scenario,
    rules: CycleRules,
    pace: Pace | None = None,
    on_minute: Callable[[], None] | None = None,
    *,
    bundles_per_namespace: int | None = None,
) -> Replay:
    """Replay a scenario; ``on_minute`` is called after each minute of it.

    With ``bundles_per_namespace`` it begins with as many even bundles in each namespace.

    Raises:
        InvariantBroken: a plan would break a safety sentence: a fault of a strategy.
    """
    course = Course(scenario, rules, pace or Pace(), bundles_per_namespace=bundles_per_namespace)
    for minute in range(scenario.traffic.minutes):
        course.replay_minute(minute)
        if on_minute is not None:
            on_minute()
    return course.record.finished(scenario, tuple(course.cluster.brokers))


class Course:
    """One replay while it goes on.

    Attributes:
        cluster: as it is after the last minute.
        record: of the minutes so far.
        rules: of the leader.

    Args:
        watch: is shown every cycle before its plan is carried out; it changes nothing.
        bundles_per_namespace: even bundles of each namespace at the start; None: those of the
            scenario.
    """

    def __init__(
        self,
        scenario: Scenario,
        rules: CycleRules,
        pace: Pace,
        watch: Watch | None = None,
        *,
        bundles_per_namespace: int | None = None,
    ) -> None:
        self.cluster = Cluster(scenario, bundles_per_namespace)
        self.record = Record()
        self.rules = rules
        self._pace = pace
        self._watch = watch
        self._board = Board(self.cluster)
        self._executor = SimulatedExecutor(
            self.cluster, self._board, self.record, pace, rules.splitting
        )
        self._memory = CycleMemory()
        self._events = by_minute(scenario.events)
        self._orphans: dict[Bundle, Orphan] = {}
        # Reports that the leader has not got yet, the oldest first.
        self._under_way: deque[Reports] = deque()

    def replay_minute(self, minute: int) -> None:
        """Replay a minute: events, reports to the leader, its decisions, and served traffic."""
        self.cluster.begin(minute)
        for event in self._events.get(minute, ()):
            self._apply_event(event)
        is_prompt = self._pace.report_delay_min <= 0
        if is_prompt:
            self._under_way.append(reports_of(self.cluster, minute))
        self._deliver_reports(minute)
        self._place_orphans(minute)
        if self._board.reports is not None:
            self._decide(minute)
        self.record.usage.append(self.cluster.usage(self.cluster.served()))
        self.record.offered_bytes.append(float(self.cluster.rates[2:].sum()))
        if not is_prompt:
            self._under_way.append(reports_of(self.cluster, minute))

    def fork(self, rules: CycleRules) -> "Course":
        """A copy of the course that continues under other rules.

        What the shedding strategy remembers is kept where it is the same one.
        """
        other = deepcopy(self, {id(rules.shedding): rules.shedding})
        other.rules = rules
        return other

    def relocate(self, receivers: Mapping[Bundle, str], minute: int) -> None:
        """Bundles go where a plan wants them, all in one minute."""
        view = self._board.view(minute)
        self._executor.perform(relocations(view, receivers), minute, 0.0)

    def _apply_event(self, event: Event) -> None:
        was_draining = self.cluster.brokers[event.broker_id].is_draining
        lost = self.cluster.apply_event(event)
        if event.kind is not EventKind.DOWN:
            return
        # A broker that stops releases its bundles at once; the session of a dead one must expire
        # first.
        cause = Cause.DRAIN if was_draining else Cause.DEATH
        from_minute = event.minute if was_draining else event.minute + 1
        for place in lost:
            bundle = self.cluster.subranges[place].bundle
            self._orphans[bundle] = Orphan(event.broker_id, cause, from_minute)

    def _deliver_reports(self, minute: int) -> None:
        newest = minute - self._pace.report_delay_min
        while self._under_way and self._under_way[0].minute <= newest:
            self._board.fold_reports(self._under_way.popleft())

    def _place_orphans(self, minute: int) -> None:
        bundles = due_orphans(self._orphans, minute)
        if not bundles:
            return
        for assign in place_orphans(self._board.view(minute), bundles, self.rules):
            orphan = self._orphans.pop(assign.bundle)
            self._executor.assign(assign, orphan.former, orphan.cause, minute)

    def _decide(self, minute: int) -> None:
        """One cycle, and others where budgets of what is in flight have cut it short."""
        for number in range(self._pace.most_cycles):
            at_s = number * self._pace.move_s
            view = self._board.view(minute, at_s)
            self._memory, plan = decide(self._memory, view, self.rules, is_split_due=number == 0)
            if self._watch is not None:
                self._watch(Cycle(view, plan, self._memory.memory))
            parts = self._executor.perform(plan.decisions, minute, at_s)
            self._spread(parts, minute, at_s)
            if not is_cut_short(plan):
                return

    def _spread(self, parts: list[Bundle], minute: int, at_s: float) -> None:
        """What a split has made may go to other brokers at once."""
        splitting = self.rules.splitting
        if not parts or splitting is None or not splitting.is_unloading:
            return
        view = self._board.view(minute, at_s)
        plan = plan_proposals(view, unload_new_bundles(view, parts), self.rules)
        self._executor.perform(plan.decisions, minute, at_s)
