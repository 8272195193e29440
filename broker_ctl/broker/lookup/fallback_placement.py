"""Placement while there is no leader, and what a receiver checks (docs: pulsar-lookup)."""

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.core.cluster.view import BrokerView, ClusterView
from broker_ctl.core.model.broker import Constraints, IsolationPolicy
from broker_ctl.core.model.load import BundleLoad, LoadVector, UsageWeights, max_usage
from broker_ctl.core.model.names import PERSISTENT, Bundle
from broker_ctl.core.rules.leader_rules import PlacementRules
from broker_ctl.core.strategies.placement.filters import required_broker
from broker_ctl.core.strategies.placement.pipeline import place
from broker_ctl.core.strategies.placement.strategies import PlacementPolicy
from broker_ctl.errors import CorruptRecord, NewerVersion, NoBroker
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.simple import BrokerReport, decode_report

log = logging.getLogger(__name__)

# Whether this broker may receive a bundle, judged here and not by what a request says.
#
# A lookup that says that the leader chose this broker proves nothing (docs: threat-ports). So the
# broker applies the mandatory filters of placement to itself: drains, pinned namespaces,
# isolation.


@dataclass(frozen=True, slots=True)
class ReceiverCheck:
    """The mandatory filters of placement, for this broker alone.

    Attributes:
        drained: ids of the brokers that operators have drained.
        report_ttl_s: the age up to which a load report counts; as the leader's.
    """

    store: MetadataStore
    registry: Registry
    constraints: Callable[[], Constraints]
    drained: Callable[[], Collection[str]]
    report_ttl_s: Callable[[], float]

    async def check(self, bundle: Bundle) -> None:
        """Accept a bundle for this broker, or refuse it.

        Raises:
            NoBroker: placement would not choose this broker.
            StoreError: the reports of primaries could not be read.
        """
        own_id, namespace = self.registry.broker_id, bundle.namespace
        if own_id in self.drained():
            raise NoBroker(f"{bundle}: {own_id} is drained and receives nothing")
        if required_broker(namespace, self._can_receive) not in {None, own_id}:
            raise NoBroker(f"{bundle}: {own_id} is not {namespace.name}, which it belongs to")
        constraints = self.constraints()
        policy = constraints.policy_of(namespace)
        if policy is not None:
            await self._check_policy(bundle, policy)
        elif (reserving := constraints.reserved_by(own_id)) is not None:
            reason = f"is a primary of policy {reserving.name}, for others only"
            raise NoBroker(f"{bundle}: {own_id} {reason}")

    async def _check_policy(self, bundle: Bundle, policy: IsolationPolicy) -> None:
        own_id = self.registry.broker_id
        if policy.is_primary(own_id):
            return
        if not policy.is_secondary(own_id):
            reason = f"is neither primary nor secondary of policy {policy.name}"
            raise NoBroker(f"{bundle}: {own_id} {reason}")
        if not policy.admits(own_id, await self._available(policy)):
            reason = f"is only secondary of policy {policy.name}, and primaries are available"
            raise NoBroker(f"{bundle}: {own_id} {reason}")

    async def _available(self, policy: IsolationPolicy) -> int:
        """The primaries that the leader may choose from, up to as many as the policy wants."""
        # The store dates all reports by one clock, and this broker's is never much older.
        newest_ms = await self._reported_ms(self.registry.broker_id)
        count = 0
        for broker_id in sorted(self.registry.peers):
            if count >= policy.min_available:
                break
            if policy.is_primary(broker_id) and self._can_receive(broker_id):
                age_ms = newest_ms - await self._reported_ms(broker_id)
                count += age_ms <= self.report_ttl_s() * 1000
        return count

    async def _reported_ms(self, broker_id: str) -> int:
        """When a broker has written its load report; 0: it has none."""
        stat = await self.store.exists(paths.load_report(broker_id))
        return 0 if stat is None else stat.mtime_ms

    def _can_receive(self, broker_id: str) -> bool:
        peer = self.registry.peer(broker_id)
        return peer is not None and not peer.is_draining and broker_id not in self.drained()


# Placement by any broker while there is no leader (docs: pulsar-lookup).
#
# Clients can wait the second or two of an election. If there is no leader for longer, the broker
# that was asked decides, on load reports that it reads now and then, and only of as many brokers
# as a request has time for. Two brokers may decide differently: the owner node shows the winner
# of the race, and clients of the loser are redirected there.


_MOST_REPORTS: Final = 32
_FRESH_S: Final = 10.0
# Elections take time: only after this long does a broker decide without a leader.
PATIENCE_S: Final = 10.0
_UNSEEN: Final = BundleLoad.unseen()


@dataclass(frozen=True, slots=True)
class FallbackRules:
    """How a broker is chosen; the same rules as the leader's."""

    placement: PlacementPolicy
    placement_rules: PlacementRules
    weights: UsageWeights


class LeaderAbsence:
    """How long there has been no leader, as far as lookups have observed."""

    def __init__(self) -> None:
        self._since_s: float | None = None
        self._noticed_s = 0.0

    def observe(self, now_s: float) -> float:
        """Note that there is no leader; returns for how many seconds that has been known.

        After `PATIENCE_S` without an observation the count restarts: a leader may have existed
        meanwhile.
        """
        if self._since_s is None or now_s - self._noticed_s > PATIENCE_S:
            self._since_s = now_s
        self._noticed_s = now_s
        return now_s - self._since_s

    def end(self) -> None:
        """Note that there is a leader."""
        self._since_s = None


class FallbackPlacement:
    """Placement on load reports that may be ten seconds old."""

    def __init__(
        self,
        *,
        store: MetadataStore,
        registry: Registry,
        constraints: Callable[[], Constraints],
        drained: Callable[[], Collection[str]] = tuple,
        rules: Callable[[], FallbackRules],
        clock: Clock,
        rng: Random,
    ) -> None:
        self._store = store
        self._registry = registry
        self._constraints = constraints
        self._drained = drained
        self._rules = rules
        self._clock = clock
        self._rng = rng
        self._view: ClusterView | None = None
        self._turn = asyncio.Lock()

    async def place(self, bundle: Bundle, domain: str = PERSISTENT) -> str:
        """Choose the broker that receives a bundle.

        ``domain`` is that of the topic in the lookup.

        Raises:
            NoBroker: no broker may receive it.
            StoreError: the reports could not be read.
        """
        rules = self._rules()
        # One request after the other: concurrent ones use the same reports, and each sees the
        # choices before it.
        async with self._turn:
            view = await self._current_view(rules)
            drained = self._drained()
            feasible = [
                broker_id
                for broker_id in view.receivers(rules.placement_rules.report_ttl_s)
                if self._registry.peer(broker_id) is not None and broker_id not in drained
            ]
            asked = replace(rules.placement_rules, domain=domain)
            choice = place(view, bundle, feasible, rules.placement, asked)
            if choice.broker_id is None:
                self._view = view
                raise NoBroker(f"{bundle}: {choice.detail}")
            self._view = _with_added_bundle(view, choice.broker_id)
            return choice.broker_id

    async def _current_view(self, rules: FallbackRules) -> ClusterView:
        now_s, known = self._clock.now_s(), self._view
        if known is not None and now_s - known.taken_at_s < _FRESH_S:
            return replace(known, constraints=self._constraints())
        ids = sorted(self._registry.peers)
        asked = sorted(self._rng.sample(ids, min(_MOST_REPORTS, len(ids))))
        nodes = await self._store.get_many([paths.load_report(each) for each in asked])
        brokers: dict[str, BrokerView] = {}
        for broker_id, node in zip(asked, nodes, strict=True):
            peer = self._registry.peer(broker_id)
            if node is None or peer is None:
                continue
            try:
                report = await asyncio.to_thread(decode_report, node.path, node.data)
            except (CorruptRecord, NewerVersion) as error:
                log.warning("skipped the load report of %s: %s", broker_id, error)
                continue
            brokers[broker_id] = _broker_view(
                report, rules.weights, is_draining=peer.registration.is_draining
            )
        return ClusterView(
            epoch=0,
            taken_at_s=now_s,
            draw_seed=self._rng.getrandbits(32),
            brokers=brokers,
            bundles={},
            constraints=self._constraints(),
        )


def _broker_view(report: BrokerReport, weights: UsageWeights, *, is_draining: bool) -> BrokerView:
    load = report.load
    usage_ratio, total = max_usage(load.usage, weights), load.total
    return BrokerView(
        load.broker_id,
        load,
        usage_ratio,
        is_draining=is_draining,
        expected=LoadVector(
            usage_ratio,
            total.throughput,
            total.msg_rate,
            total.topics,
            bytes_in=total.msg_throughput_in,
            bytes_out=total.msg_throughput_out,
            sessions=total.sessions,
        ),
        takes_persistent=report.persistent_topics,
        takes_non_persistent=report.non_persistent_topics,
    )


def _with_added_bundle(view: ClusterView, broker_id: str) -> ClusterView:
    """The view with one more bundle on the chosen broker, so that a burst of lookups is spread."""
    broker = view.brokers[broker_id]
    count = max(1, broker.load.bundle_count)
    one = LoadVector(
        broker.usage_ratio / count, _UNSEEN.short.throughput, _UNSEEN.long.msg_rate, _UNSEEN.topics
    )
    busier = replace(broker, expected=broker.expected + one)
    return replace(view, brokers={**view.brokers, broker_id: busier})
