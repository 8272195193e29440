"""Choice of a receiver for a bundle without an owner, with a reservation.

The chosen broker reports a bundle seconds after the choice, and a burst of lookups asks again and
again meanwhile. So each choice is reserved: the same bundle gets the same answer, and the next
bundle is placed as if the broker already had the first. Pulsar's leader drops reservations at the
next report of any broker, which floods an idle broker (docs: pulsar-report-rules).
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from broker_ctl.balancer.context.dependencies import (
    BalancerDependencies,
    PlacementLog,
    PlacementResult,
)
from broker_ctl.balancer.monitoring.load_monitor import LoadMonitor
from broker_ctl.balancer.monitoring.snapshot_builder import SnapshotBuilder
from broker_ctl.coordination.election import Leadership
from broker_ctl.core.cluster.view import BrokerView, ClusterView
from broker_ctl.core.model.load import LoadVector
from broker_ctl.core.model.names import PERSISTENT, Bundle, Namespace
from broker_ctl.core.strategies.placement.pipeline import place
from broker_ctl.core.strategies.placement.strategies import UNKNOWN_USAGE, Choice, expected_usage
from broker_ctl.errors import NoBroker

_FRESH_S: Final = 1.0
# Views of a large cluster are expensive: this share of time may go into views for lookups.
_MAX_VIEW_TIME_RATIO: Final = 0.05


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation: ``broker_id`` receives the bundle; valid until ``until_s``.

    Attributes:
        session_id: session of the chosen broker; a restarted broker has no reservations.
        report_ms: time of its newest report at the choice; that report does not confirm the bundle.
    """

    broker_id: str
    choice: Choice
    until_s: float
    session_id: int
    report_ms: int | None


class Placements:
    """The placements of one term.

    Attributes:
        log: results and durations of placements.
    """

    def __init__(
        self,
        dependencies: BalancerDependencies,
        leadership: Leadership,
        load_monitor: LoadMonitor,
        snapshot_builder: SnapshotBuilder,
    ) -> None:
        self.log = PlacementLog()
        self._dependencies = dependencies
        self._leadership = leadership
        self._load_monitor = load_monitor
        self._snapshot_builder = snapshot_builder
        self._reserved: dict[Bundle, Reservation] = {}
        self._full: ClusterView | None = None
        self._fresh_s = _FRESH_S
        # Brokers with their reservations and without bundles: cheap to copy for each choice.
        self._with_reservations: ClusterView | None = None
        # Who of them can receive, judged by these peers, drains and age of a report. A thousand
        # brokers are judged once for many bundles: after the loss of a zone, thousands are placed.
        self._able: tuple[str, ...] = ()
        self._judged_by: tuple[Mapping[str, object], Mapping[str, object], float] | None = None
        # Usage that a bundle without a report is expected to cause, by namespace, of this view.
        self._expected_of: ClusterView | None = None
        self._expected: dict[Namespace, float] = {}
        self._turn = asyncio.Lock()
        self._constraints = dependencies.constraints()

    @property
    def reserved(self) -> dict[Bundle, Reservation]:
        """Valid reservations."""
        return dict(self._reserved)

    async def place(self, bundle: Bundle, domain: str = PERSISTENT) -> Choice:
        """Choose the broker that receives a bundle; the choice is kept while it is valid.

        ``domain`` is that of the topic in the lookup.

        Raises:
            NoBroker: no broker may receive it.
            LeadershipSuspended, AuthorityLost: this broker may not decide now, or lost its term.
        """
        began_s, reservation = self._dependencies.clock.now_s(), self._reserved.get(bundle)
        try:
            choice = await self._place(bundle, domain)
        except NoBroker:
            self.log.add(PlacementResult.EMPTY, self._dependencies.clock.now_s() - began_s)
            raise
        is_kept = reservation is not None and choice is reservation.choice
        result = PlacementResult.SKIP if is_kept else PlacementResult.SUCCESS
        self.log.add(result, self._dependencies.clock.now_s() - began_s)
        return choice

    async def _place(self, bundle: Bundle, domain: str) -> Choice:
        self._leadership.check()
        async with self._turn:
            self._apply_changed_constraints()
            now_s = self._dependencies.clock.now_s()
            reservation = self._reserved.get(bundle)
            if reservation is not None and self._is_valid(bundle, reservation, now_s):
                return reservation.choice
            self._reserved.pop(bundle, None)
            view = await self._fresh(now_s)
            # The connection may have been lost while the view was taken.
            self._leadership.check()
            view = self._judge_brokers(view)
            rules = self._dependencies.rules()
            placement_rules_of_domain = replace(rules.placement_rules, domain=domain)
            choice = place(view, bundle, self._able, rules.placement, placement_rules_of_domain)
            return self._reserve(bundle, choice, now_s)

    async def choose(self, bundle: Bundle, failed: frozenset[str]) -> str:
        """Choose another receiver after those in ``failed``.

        Raises:
            NoBroker: no broker is left.
        """
        await self._leadership.wait_deciding()
        async with self._turn:
            self._apply_changed_constraints()
            view = self._judge_brokers(await self._fresh(self._dependencies.clock.now_s()))
            # The view counts the bundle to the destination of its move: the broker that failed.
            moves = {other: move for other, move in view.moves.items() if other != bundle}
            view = replace(view, moves=moves)
            candidates = [broker_id for broker_id in self._able if broker_id not in failed]
            rules = self._dependencies.rules()
            choice = place(view, bundle, candidates, rules.placement, rules.placement_rules)
            if choice.broker_id is None:
                raise NoBroker(f"{bundle}: {choice.detail}")
            return choice.broker_id

    def _apply_changed_constraints(self) -> None:
        """Drop all reservations if an operator has changed the constraints."""
        constraints = self._dependencies.constraints()
        if constraints is self._constraints:
            return
        self._constraints = constraints
        self._reserved.clear()
        self._with_reservations = None

    def _judge_brokers(self, view: ClusterView) -> ClusterView:
        """Find those that can receive, by registry and drains, which are newer than the view.

        Returns the view without brokers whose session ended since: the next one has restarted ones.
        The others drain as they do now: policies count the primaries that can receive.
        """
        ttl_s = self._dependencies.rules().placement_rules.report_ttl_s
        peers = self._dependencies.registry.peers
        # Both are mappings of few changes: the same objects are compared by identity.
        judged_by = peers, self._dependencies.directives.drains, ttl_s
        if judged_by == self._judged_by:
            return view
        living: dict[str, BrokerView] = {}
        for broker_id, broker in view.brokers.items():
            if (peer := peers.get(broker_id)) and peer.session_id == broker.session_id:
                is_draining = not self._dependencies.can_receive(broker_id)
                is_changed = is_draining != broker.is_draining
                living[broker_id] = (
                    replace(broker, is_draining=is_draining) if is_changed else broker
                )
        self._with_reservations = view = replace(view, brokers=living)
        self._able = view.receivers(ttl_s)
        self._judged_by = judged_by
        return view

    def _reserve(self, bundle: Bundle, choice: Choice, now_s: float) -> Choice:
        if choice.broker_id is None:
            raise NoBroker(f"{bundle}: {choice.detail}")
        until_s = now_s + self._dependencies.rules().reservation_s
        peer = self._dependencies.registry.peer(choice.broker_id)
        self._reserved[bundle] = Reservation(
            choice.broker_id,
            choice,
            until_s,
            0 if peer is None else peer.session_id,
            self._report_ms(choice.broker_id),
        )
        if self._with_reservations is not None:
            self._with_reservations = self._with(
                self._with_reservations, {choice.broker_id: [bundle]}
            )
        return choice

    # Reservations.

    def _is_valid(self, bundle: Bundle, reservation: Reservation, now_s: float) -> bool:
        """Whether it holds: until the broker reports the bundle, goes away, or time runs out.

        A broker that had the bundle before may still list it in its last report.
        """
        report = self._load_monitor.reports.get(reservation.broker_id)
        is_reported = (
            report is not None
            and bundle in report.lines
            and self._report_ms(reservation.broker_id) != reservation.report_ms
        )
        peer = self._dependencies.registry.peer(reservation.broker_id)
        is_same_life = peer is not None and peer.session_id == reservation.session_id
        can_receive = is_same_life and self._dependencies.can_receive(reservation.broker_id)
        return now_s < reservation.until_s and not is_reported and can_receive

    def _report_ms(self, broker_id: str) -> int | None:
        report = self._load_monitor.reports.get(broker_id)
        return None if report is None else report.data.load.updated_ms

    async def _fresh(self, now_s: float) -> ClusterView:
        """Brokers with their reservations, at most about a second old."""
        if self._full is None or now_s - self._full.taken_at_s >= self._fresh_s:
            self._full = await self._snapshot_builder.build(draw_seed=self._leadership.epoch)
            took_s = self._dependencies.clock.now_s() - now_s
            self._fresh_s = max(_FRESH_S, took_s / _MAX_VIEW_TIME_RATIO)
            self._with_reservations = None
            # They may have changed while the view was taken.
            self._apply_changed_constraints()
        if self._with_reservations is None:
            self._reserved = {
                bundle: reservation
                for bundle, reservation in self._reserved.items()
                if self._is_valid(bundle, reservation, now_s)
            }
            # By broker: after the loss of a zone there are more reservations than brokers.
            by_broker: defaultdict[str, list[Bundle]] = defaultdict(list)
            for bundle, reservation in self._reserved.items():
                by_broker[reservation.broker_id].append(bundle)
            without_bundles = replace(self._full, bundles={}, constraints=self._constraints)
            self._with_reservations = self._with(without_bundles, by_broker)
            self._judged_by = None
        return self._with_reservations

    def _with(self, view: ClusterView, bundles: Mapping[str, Sequence[Bundle]]) -> ClusterView:
        """The view with more bundles at brokers, except those that it has there already."""
        brokers = dict(view.brokers)
        for broker_id, reserved in bundles.items():
            broker = view.brokers.get(broker_id)
            if broker is None:
                continue
            come, expected = [b for b in reserved if b not in broker.owned], broker.expected
            for bundle in come:
                expected += self._load_of(bundle)
            brokers[broker_id] = broker.holding(
                come=come, expected=expected, topics=view.constraints.topics
            )
        return replace(view, brokers=brokers)

    def _load_of(self, bundle: Bundle) -> LoadVector:
        full = self._full
        known = full.bundles.get(bundle) if full is not None else None
        if known is not None and known.current is not None:
            return known.load_vector
        load = self._load_monitor.load_of(bundle)
        # An average may be known though its owner has not reported it: after a death.
        usage = 0.0 if known is None else known.load_vector.usage_ratio
        usage = max(usage, UNKNOWN_USAGE if full is None else self._expected_usage(full, bundle))
        return LoadVector(usage, load.short.throughput, load.long.msg_rate, load.topics)

    def _expected_usage(self, full: ClusterView, bundle: Bundle) -> float:
        namespace = bundle.namespace
        if self._expected_of is not full:
            self._expected_of, self._expected = full, {}
        if namespace not in self._expected:
            self._expected[namespace] = expected_usage(full, namespace)
        return self._expected[namespace]
