"""What the leader sees of the brokers of a rollout: offices, replicas in sync, restarts."""

import logging
import math
from collections.abc import Callable, Collection
from typing import Final

from broker_ctl.balancer.context.dependencies import BalancerDependencies
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.clock import Clock
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.core.rollout.broker_machine import BrokerRolloutState as BrokerState
from broker_ctl.core.rollout.forecast import Seats
from broker_ctl.core.rollout.rollout import BrokerProgress, BrokerReadings, Rollout, awaits_report
from broker_ctl.errors import CorruptRecord
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.ownership import LeaderBroker
from broker_ctl.store.records.partitions import (
    ControllerRecord,
    decode_state,
    decode_topic_in_any_form,
)

log = logging.getLogger(__name__)

# Who holds the elected offices; a rollout restarts them last.


async def find_seats(dependencies: BalancerDependencies) -> Seats:
    """The leader of the bundles and the controller.

    The former is this process, unless it balances a cluster of others from outside.

    Raises:
        StoreError: a node could not be read.
    """
    leader, controller = await dependencies.store.get_many(
        [paths.LOADBALANCE_ELECTION.node_path, paths.CONTROLLER_ELECTION.node_path]
    )
    own_id = dependencies.own_id
    is_broker = dependencies.registry.peer(own_id) is not None
    return Seats(
        own_id if is_broker else _holder(leader, _decode_leader),
        _holder(controller, lambda node: ControllerRecord.decode(node.path, node.data).daemon),
    )


def _decode_leader(node: Versioned) -> str:
    return LeaderBroker.decode(node.path, node.data).broker_id


def _holder(node: Versioned | None, decode: Callable[[Versioned], str]) -> str:
    try:
        return "" if node is None else decode(node)
    except CorruptRecord as error:
        log.warning("the order of the rollout ignores an elected broker: %s", error)
        return ""


# Which replicated partitions wait for a replica to catch up.


# Between two reads while replicas lag: there may be thousands of nodes.
_AGAIN_S: Final = 2.0
_MOST_DIGITS: Final = 10


class InSync:
    """Reads the state of all partitions, where there are any."""

    def __init__(self, store: MetadataStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lagging: tuple[str, ...] = ()
        self._read_s = -math.inf

    async def live_ids(self) -> tuple[int, ...]:
        """Ids of the brokers that are registered for replicas.

        Raises:
            StoreError: they could not be read.
        """
        names = await self._store.children(paths.BROKER_IDS)
        return tuple(sorted(int(each) for each in names if _is_id(each)))

    async def lagging(self, expected: Collection[int]) -> tuple[str, ...]:
        """Partitions with a replica on these brokers that is not in the ISR, by a fresh read.

        While there are some, the answer may be two seconds old.

        Raises:
            StoreError: a node could not be read.
        """
        now_s = self._clock.now_s()
        if not self._lagging or now_s - self._read_s >= _AGAIN_S:
            self._read_s, self._lagging = now_s, tuple(map(str, await self._read(expected)))
        return self._lagging

    async def _read(self, expected: Collection[int]) -> list[TopicPartition]:
        names = await self._store.children(paths.TOPICS)
        if not names:
            return []
        # The newest: a state may be read from a server that lags behind.
        await self._store.sync(paths.TOPICS)
        wanted = await self._expected_replicas(names, expected)
        partitions = sorted(wanted)
        states = await self._store.get_many([paths.leader_and_isr(each) for each in partitions])
        found = []
        for partition, node in zip(partitions, states, strict=True):
            try:
                isr = frozenset() if node is None else frozenset(decode_state(node).isr)
            except CorruptRecord as error:
                log.warning("the rollout ignores a partition: %s", error)
                continue
            if not wanted[partition] <= isr:
                found.append(partition)
        return found

    async def _expected_replicas(
        self, names: list[str], expected: Collection[int]
    ) -> dict[TopicPartition, frozenset[int]]:
        found: dict[TopicPartition, frozenset[int]] = {}
        topics = await self._store.get_many([paths.topic(name) for name in names])
        for name, node in zip(names, topics, strict=True):
            if node is None:
                continue
            try:
                partitions = decode_topic_in_any_form(node).partitions
            except CorruptRecord as error:
                log.warning("the rollout ignores a topic: %s", error)
                continue
            for number, of in partitions.items():
                # A reassignment may take long: its new replicas are not waited for.
                replicas = frozenset(of.replicas) - {*of.adding}
                found[TopicPartition(name, number)] = replicas.intersection(expected)
        return found


def _is_id(name: str) -> bool:
    """Whether a registration is a number that a broker can have; anybody may create others."""
    return name.isascii() and name.isdecimal() and len(name) <= _MOST_DIGITS


# What the leader sees of the brokers of a rollout.


class RolloutObserver:
    """The readings of one moment; `on` gives it the view of that moment."""

    def __init__(self, term: LeaderTerm) -> None:
        self._term = term
        self._registry = term.dependencies.registry
        self._view: ClusterView | None = None
        self._msg_rate_before = 0.0
        self._in_sync = InSync(term.dependencies.store, term.dependencies.clock)
        self._lagging: tuple[str, ...] = ()

    async def on(self, view: ClusterView, rollout: Rollout) -> "RolloutObserver":
        """The observer with the view of this moment.

        Raises:
            StoreError: the states of the partitions could not be read.
        """
        self._view, self._msg_rate_before = view, rollout.msg_rate
        if any(each.state is BrokerState.CHECKING for each in rollout.current):
            self._lagging = await self._in_sync.lagging(rollout.live_ids)
        return self

    async def live_ids(self) -> tuple[int, ...]:
        """See `InSync.live_ids`."""
        return await self._in_sync.live_ids()

    def msg_rate(self) -> float:
        """Messages/s of the cluster, by the newest reports."""
        reports = self._term.load_monitor.reports.values()
        return sum(report.data.load.total.msg_rate for report in reports)

    def run_of(self, broker_id: str) -> str | None:
        """The run of a registered broker; None: it is not alive."""
        peer = self._registry.peer(broker_id)
        return None if peer is None else peer.run

    def bundles_left(self, broker_id: str) -> int:
        """Bundles that a broker owns or that are leaving it, without pinned ones."""
        assert self._view is not None
        broker = self._view.brokers.get(broker_id)
        held = () if broker is None else broker.owned
        owned = sum(not bundle.namespace.is_pinned for bundle in held)
        return owned + sum(
            record.move.from_broker == broker_id for record in self._term.dependencies.moves.all
        )

    def readings(self, progress: BrokerProgress) -> BrokerReadings:
        """What is seen of a restarted broker."""
        peer = self._registry.peer(progress.broker_id)
        report = self._term.load_monitor.reports.get(progress.broker_id)
        # The report of the process before may be known for longer than its registration.
        if report is not None and peer is not None and report.czxid < peer.czxid:
            report = None
        return BrokerReadings(
            None if peer is None else peer.run,
            progress.run_before,
            progress.is_healthy,
            "" if report is None else report.data.load.version,
            report is not None,
            self._stale(),
            self._lagging,
            self.msg_rate(),
            self._msg_rate_before,
        )

    def _stale(self) -> tuple[str, ...]:
        """See `Readings.stale`."""
        assert self._view is not None
        view, reports = self._view, self._term.load_monitor.reports
        return tuple(
            sorted(
                broker_id
                for broker_id, broker in view.brokers.items()
                if (report := reports.get(broker_id)) is not None
                and not report.data.load.unlisted_bundles
                and awaits_report(
                    (
                        view.bundles[one]
                        for one in broker.owned - report.lines.keys()
                        if one in view.bundles
                    ),
                    report.received_s,
                    report.data.load.total,
                )
            )
        )
