"""A scenario, minute by minute, under the rules of a leader.

The planner, and Pulsar's strategies as it ships them, each with the placement that goes with it.

Shedding and splitting have the defaults of Pulsar 4.0, those of ``avg5`` the defaults of Pulsar
5.0; nothing is merged, and nothing limits how much moves (docs: pulsar-shedders, pulsar-split-task,
pulsar-configuration).
"""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple, assert_never

from broker_ctl.core.cluster.decisions import Action, Assign, Merge, Split, Transfer, Unload
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.planning.decide import (
    CycleMemory,
    CycleRules,
    decide,
    is_cut_short,
    plan_proposals,
)
from broker_ctl.core.planning.plan import Plan
from broker_ctl.core.rules.leader_rules import (
    Budgets,
    DifferenceRules,
    PlacementRules,
    SheddingRules,
    SplitRules,
)
from broker_ctl.core.strategies.balance.profile import relocations
from broker_ctl.core.strategies.placement.strategies import PLACEMENT
from broker_ctl.core.strategies.shedding.policy import SheddingPolicy
from broker_ctl.core.strategies.shedding_strategies import BALANCE, SHEDDING
from broker_ctl.core.strategies.splitting.algorithms import (
    SPLITTING,
    SplitRequest,
    TopicRate,
    specified_positions_divide,
    traffic_equally_divide,
)
from broker_ctl.core.strategies.splitting.candidates import dominant_position, unload_new_bundles
from broker_ctl.errors import InvariantBroken
from broker_ctl.simulation.model.scenario import (
    ReplayPace,
    Scenario,
    ScenarioEvent,
    ScenarioEventKind,
)
from broker_ctl.simulation.replay.board import Board, Reports, reports_of
from broker_ctl.simulation.replay.cluster import (
    MoveCause,
    Moved,
    Orphan,
    Replay,
    ReplayCluster,
    ReplayRecord,
    Reshaped,
    by_minute,
    due_orphans,
    place_orphans,
)

# Executes a plan in the simulated cluster, decision by decision, in the plan's order.


_MINUTE_S = 60.0


class SimulatedExecutor:
    """The executor of the simulated leader, which reads the state of the cluster itself.

    Args:
        splitting: what is too much for one bundle, for algorithms that ask.
    """

    def __init__(
        self,
        cluster: ReplayCluster,
        board: Board,
        record: ReplayRecord,
        pace: ReplayPace,
        splitting: SplitRules | None,
    ) -> None:
        self._cluster = cluster
        self._board = board
        self._record = record
        self._pace = pace
        self._splitting = splitting or SplitRules()

    def perform(self, decisions: Iterable[Action], minute: int, at_s: float) -> list[Bundle]:
        """All of them, ``at_s`` seconds into the minute; answers with what splits have made."""
        parts: list[Bundle] = []
        for decision in decisions:
            match decision:
                case Transfer():
                    self._transfer(decision, minute, at_s)
                case Split():
                    parts += self._split(decision, minute, at_s)
                case Merge():
                    self._merge(decision, minute, at_s)
                case Assign() | Unload():
                    raise InvariantBroken(f"no cycle has this: {decision.sentence}")
                case _:
                    assert_never(decision)
        return parts

    def assign(self, assign: Assign, former: str, cause: MoveCause, minute: int) -> None:
        """What has lost its broker goes to another; its clients have noticed by now."""
        place = self._place_of(assign.bundle)
        wait_s = self._pace.move_s if cause is MoveCause.DRAIN else self._pace.reconnect_s
        self._cluster.give(place, assign.destination, 0.0, wait_s)
        self._note(minute, assign, place, former, cause)

    def _transfer(self, transfer: Transfer, minute: int, at_s: float) -> None:
        place, pace = self._place_of(transfer.bundle), self._pace
        brokers = self._cluster.brokers
        cause = MoveCause.LOAD
        if brokers[transfer.source].is_draining:
            cause = MoveCause.DRAIN
        elif brokers[transfer.destination].is_new(minute):
            cause = MoveCause.REFILL
        self._cluster.give(place, transfer.destination, at_s, at_s + pace.move_s)
        ended_s = minute * _MINUTE_S + at_s + pace.unload_s
        if transfer.reason.is_own:
            self._board.on_move(transfer.bundle, ended_s, transfer.load_vector.throughput_bytes)
        self._note(minute, transfer, place, transfer.source, cause)

    def _split(self, split: Split, minute: int, at_s: float) -> list[Bundle]:
        place = self._place_of(split.bundle)
        points = self._points(split, place)
        if not points:
            return []
        children = self._cluster.split(place, points)
        self._board.on_split(place, split.bundle, children, minute * _MINUTE_S + at_s)
        self._record.splits.append(Reshaped(minute, split.bundles, tuple(children)))
        return children

    def _points(self, split: Split, place: int) -> tuple[int, ...]:
        """Where the owner cuts, which knows the topics."""
        cut = SPLITTING.find(split.algorithm)
        if split.boundaries and cut is not specified_positions_divide:
            return split.boundaries
        rates = tuple(
            TopicRate(position, messages, octets)
            for position, messages, octets in self._cluster.topics_of(place)
        )
        if cut is traffic_equally_divide and dominant_position(rates) is not None:
            return ()
        hashes = tuple(topic.position for topic in rates)
        return cut(
            SplitRequest(split.bundle.range, hashes, split.boundaries, rates, self._splitting)
        )

    def _merge(self, merge: Merge, minute: int, at_s: float) -> None:
        place = self._place_of(merge.left)
        whole = self._cluster.merge(place, at_s)
        self._board.on_merge(place, minute * _MINUTE_S + at_s)
        self._record.merges.append(Reshaped(minute, merge.bundles, (whole,)))

    def _place_of(self, bundle: Bundle) -> int:
        place = self._cluster.place_of(bundle)
        if place is None:
            raise InvariantBroken(f"{bundle} is not a bundle of the simulated cluster")
        return place

    def _note(
        self, minute: int, done: Assign | Transfer, place: int, source: str, cause: MoveCause
    ) -> None:
        bytes_s = self._cluster.bytes_of(place)
        self._record.moves.append(
            Moved(minute, done.bundle, source, done.destination, bytes_s, done.reason, cause)
        )


# Pulsar's shedders have quiet times of their own, and no other limits.
UNLIMITED: Final = Budgets(
    max_moves_per_broker=sys.maxsize,
    max_moves=sys.maxsize,
    hourly_load_ratio=sys.float_info.max / 1e100,
    cool_down_s=0.0,
    namespace_ratio=1.0,
)
# Rounds that the extensible load manager waits; the modular one waits for none.
_EXTENSIBLE_HITS: Final = 3


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a scenario is replayed against.

    Attributes:
        bundles_per_namespace: even bundles of each namespace at the start
            (defaultNumberOfNamespaceBundles); None: those of the scenario.
    """

    rules: CycleRules
    pace: ReplayPace = field(default_factory=ReplayPace)
    bundles_per_namespace: int | None = None


def _pair(shedding: str, placement: str, hit_count: int = 0) -> Baseline:
    policy: SheddingPolicy[Any] = SHEDDING.find(shedding)
    return Baseline(
        CycleRules(
            placement=PLACEMENT.find(placement),
            shedding=policy,
            splitting=SplitRules(hit_count=hit_count),
            # loadBalancerDistributeBundlesEvenlyEnabled is on in 4.0.
            placement_rules=PlacementRules(is_spread_evenly=True),
            budgets=UNLIMITED,
        )
    )


def _avg5() -> Baseline:
    """AvgShedder with the defaults of 5.0.

    They are maxUnloadPercentage, loadBalancerDistributeBundlesEvenlyEnabled and
    defaultNumberOfNamespaceBundles.
    """
    before = _pair("AvgShedder", "AvgShedder").rules
    rules = replace(
        before,
        shedding_rules=SheddingRules(difference=DifferenceRules(max_ratio=0.5)),
        placement_rules=PlacementRules(),
    )
    return Baseline(rules, bundles_per_namespace=32)


def _balance() -> Baseline:
    """Ours, with default settings."""
    return Baseline(
        CycleRules(
            placement=PLACEMENT.find(BALANCE),
            shedding=SHEDDING.find(BALANCE),
            splitting=SplitRules(max_share_ratio=0.1, is_unloading=False),
        ),
        # The daemon decides again after five seconds where moves in flight have cut a plan short.
        ReplayPace(cycles_per_minute=12),
    )


POLICIES: Final[Mapping[str, Callable[[], Baseline]]] = MappingProxyType(
    {
        "balance": _balance,
        "overload": lambda: _pair("OverloadShedder", "LeastLongTermMessageRate"),
        "threshold": lambda: _pair("ThresholdShedder", "LeastResourceUsageWithWeight"),
        "uniform": lambda: _pair("UniformLoadShedder", "LeastLongTermMessageRate"),
        "avg": lambda: _pair("AvgShedder", "AvgShedder"),
        "avg5": _avg5,
        "transfer": lambda: _pair(
            "TransferShedder", "LeastResourceUsageWithWeight", _EXTENSIBLE_HITS
        ),
    }
)


# A scenario, minute by minute, under the rules of a leader.
#
# Docs: session-scope, stopping, load-history-sources. The strategies and their memory are the
# daemon's own (`core/planning/decide.py`). They run on a simulated cluster in which reports are
# late, and a bundle that moves has no owner for a while. The same scenario, rules and pace give
# the same replay to the bit.


class ReplayCycle(NamedTuple):
    """One cycle of the simulated leader.

    Attributes:
        memory: of the shedding strategy, after it; None where nothing is shed.
    """

    view: ClusterView
    plan: Plan
    memory: Any


Watch = Callable[[ReplayCycle], None]


def replay(
    scenario: Scenario,
    rules: CycleRules,
    pace: ReplayPace | None = None,
    on_minute: Callable[[], None] | None = None,
    *,
    bundles_per_namespace: int | None = None,
) -> Replay:
    """Replay a scenario; ``on_minute`` is called after each minute of it.

    With ``bundles_per_namespace`` it begins with as many even bundles in each namespace.

    Raises:
        InvariantBroken: a plan would break a safety sentence: a fault of a strategy.
    """
    course = ReplayCourse(
        scenario, rules, pace or ReplayPace(), bundles_per_namespace=bundles_per_namespace
    )
    for minute in range(scenario.traffic.minutes):
        course.replay_minute(minute)
        if on_minute is not None:
            on_minute()
    return course.record.finished(scenario, tuple(course.cluster.brokers))


class ReplayCourse:
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
        pace: ReplayPace,
        watch: Watch | None = None,
        *,
        bundles_per_namespace: int | None = None,
    ) -> None:
        self.cluster = ReplayCluster(scenario, bundles_per_namespace)
        self.record = ReplayRecord()
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

    def fork(self, rules: CycleRules) -> "ReplayCourse":
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

    def _apply_event(self, event: ScenarioEvent) -> None:
        was_draining = self.cluster.brokers[event.broker_id].is_draining
        lost = self.cluster.apply_event(event)
        if event.kind is not ScenarioEventKind.DOWN:
            return
        # A broker that stops releases its bundles at once; the session of a dead one must expire
        # first.
        cause = MoveCause.DRAIN if was_draining else MoveCause.DEATH
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
                self._watch(ReplayCycle(view, plan, self._memory.memory))
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
