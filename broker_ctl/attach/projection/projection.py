"""Keeps the nodes of an `InProcessStore` equal to what a cluster answers.

Everything above reads those nodes as it reads ZooKeeper's: reports, owners, rings, policies. A
`sync` of the store asks the cluster again, so that preconditions and outcomes of requests are
judged by what the brokers say after it, never by an older look.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from broker_ctl.attach.admin import PulsarAdmin
from broker_ctl.attach.projection.namespaces import ProjectedNamespaces
from broker_ctl.attach.projection.reports import LoadReports, ReportedLoad, StuckBundles
from broker_ctl.attach.reader import ClusterReader
from broker_ctl.clock import Clock
from broker_ctl.codec import encode
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.strategies.load_managers import EXTENSIBLE
from broker_ctl.errors import ConnectionLoss, PeerError
from broker_ctl.store import paths
from broker_ctl.store.in_process.store import InProcessStore, Projected
from broker_ctl.store.path_rules import is_at_or_below
from broker_ctl.store.records.ownership import LeaderBroker, NamespaceEphemeralData
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

_T = TypeVar("_T")

# Brokers that are asked at the same time.
_AT_ONCE: Final = 8
# Policies change when an operator changes them.
_POLICIES_S: Final = 30.0


@dataclass
class _Broker:
    """What is known of a live broker; what it did not answer the last time stays."""

    urls: BrokerUrls
    owned: frozenset[Bundle] = frozenset()
    report: ReportedLoad | None = None


@dataclass
class _Look:
    """Which look at the owners is under way."""

    begun: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class ClusterProjection:
    """Reads a cluster every few seconds, and whenever its nodes are synced.

    Attributes:
        read_s: when the brokers were read last, on `Clock.now_s`.
        failure: why the newest look did not show them; empty if it did.
    """

    def __init__(
        self,
        admin: PulsarAdmin,
        store: InProcessStore,
        clock: Clock,
        *,
        cluster: str,
        period_s: float,
    ) -> None:
        self._reader = ClusterReader(admin, cluster)
        self._admin = admin
        self._reports = LoadReports(admin, self._reader, clock)
        self._namespaces = ProjectedNamespaces(self._reader, clock)
        self._store = store
        self._clock = clock
        self._cluster = cluster
        self._period_s = period_s
        self._brokers: dict[str, _Broker] = {}
        self._look = _Look()
        self._stuck = StuckBundles()
        self._policies_s = -math.inf
        self.read_s = -math.inf
        self.failure = ""
        self._tasks = TaskScope("projection")
        store.refresh = self._refresh

    @property
    def urls(self) -> Mapping[str, BrokerUrls]:
        """Where the live brokers are asked: a broker's id is its web address."""
        return {broker_id: broker.urls for broker_id, broker in self._brokers.items()}

    def stuck(self) -> list[dict[str, Any]]:
        """Bundles that the extensible manager's channel does not hand on."""
        managers = {
            broker.report.manager for broker in self._brokers.values() if broker.report is not None
        }
        is_handing_on = EXTENSIBLE.class_name in managers
        return self._stuck.rows(self._clock.now_s()) if is_handing_on else []

    async def start(self) -> None:
        """Read the whole cluster once, and then again and again.

        Raises:
            PeerUnreachable, PeerRefused: it cannot be read.
        """
        await self._read()
        self._tasks.keep(self._keep_reading(), "read the cluster")

    async def close(self) -> None:
        """Stop reading."""
        await self._tasks.close()

    async def _keep_reading(self) -> None:
        while True:
            await asyncio.sleep(self._period_s)
            try:
                await self._read()
            except PeerError as error:
                if self.failure != str(error):
                    log.warning("cannot read the cluster: %s", error)
                self.failure = str(error)

    async def _refresh(self, path: str) -> None:
        """See `InProcessStore.refresh`.

        Raises:
            ConnectionLoss: the cluster does not answer.
        """
        try:
            if is_at_or_below(paths.OWNERSHIP, path):
                await self._read_owners()
            elif (namespace := paths.local_policies_namespace(path)) is not None:
                await self._namespaces.read_ring(namespace)
                await self._show_namespaces()
        except PeerError as error:
            raise ConnectionLoss(f"cannot read {path} from the cluster: {error}") from error

    async def _read(self) -> None:
        await self._read_brokers()
        await self._read_owners()
        await _each(self._brokers.values(), self._read_report)
        await self._show_reports()
        # Which run of a broker owns them, reports have shown.
        await self._show_owners()
        await self._read_policies()
        owned = {bundle for broker in self._brokers.values() for bundle in broker.owned}
        await self._namespaces.read(owned)
        await self._show_namespaces()
        self.read_s, self.failure = self._clock.now_s(), ""

    async def _read_brokers(self) -> None:
        live = await self._reader.brokers()
        self._brokers = {
            broker_id: self._brokers.get(broker_id) or _Broker(_urls_of(broker_id))
            for broker_id in live
        }
        self._reports.keep_only(self._brokers)
        leader = await self._admin.leader()
        root, nodes = paths.LOADBALANCE_ELECTION.node_path, {}
        if leader is not None:
            nodes[root] = Projected(LeaderBroker(_id_of(leader), leader).encode())
        await self._store.project(root, nodes)

    async def _read_owners(self) -> None:
        """Ask every broker what it owns, in a look that begins after this call."""
        asked = self._look.begun
        async with self._look.turn:
            if self._look.begun > asked:
                return
            self._look.begun += 1
            await _each(self._brokers.values(), self._read_owned)
            self._stuck.look(
                {
                    bundle: broker_id
                    for broker_id, broker in self._brokers.items()
                    for bundle in broker.owned
                },
                self._clock.now_s(),
            )
            await self._show_owners()

    async def _read_owned(self, broker: _Broker) -> None:
        broker.owned = await self._reader.owned(broker.urls.broker_id)

    async def _read_report(self, broker: _Broker) -> None:
        broker.report = await self._reports.report(broker.urls, broker.owned)

    async def _read_policies(self) -> None:
        now_s = self._clock.now_s()
        if now_s - self._policies_s < _POLICIES_S:
            return
        names = await self._reader.clusters()
        isolation = paths.isolation_policies(self._cluster)
        nodes = {paths.cluster(name): Projected(b"{}") for name in names}
        nodes[isolation] = Projected(encode(await self._reader.isolation_policies()))
        for domain, value in (await self._reader.failure_domains()).items():
            nodes[paths.failure_domain(self._cluster, domain)] = Projected(encode(value))
        await self._store.project(paths.CLUSTERS, nodes)
        self._policies_s = now_s

    async def _show_owners(self) -> None:
        nodes = {}
        for broker in self._brokers.values():
            run = broker.report.run if broker.report is not None else _NEW_RUN
            data = NamespaceEphemeralData(broker.urls).encode()
            nodes.update({paths.ownership(bundle): Projected(data, run) for bundle in broker.owned})
        await self._store.project(paths.OWNERSHIP, nodes)

    async def _show_reports(self) -> None:
        nodes = {
            paths.load_report(broker_id): Projected(broker.report.data, broker.report.run)
            for broker_id, broker in self._brokers.items()
            if broker.report is not None
        }
        await self._store.project(paths.LOAD_REPORTS, nodes)

    async def _show_namespaces(self) -> None:
        await self._store.project(paths.LOCAL_POLICIES, self._namespaces.nodes())


# Of a broker whose report was not read yet.
_NEW_RUN: Final = 1


async def _each(items: Iterable[_T], ask: Callable[[_T], Awaitable[None]]) -> None:
    """Ask for all, some at a time; one that does not answer is left as it was known.

    Raises:
        PeerError: none of them answers.
    """
    turn = asyncio.Semaphore(_AT_ONCE)
    failures: list[PeerError] = []

    async def one(item: _T) -> None:
        async with turn:
            try:
                await ask(item)
            except PeerError as error:
                failures.append(error)

    asked = list(items)
    async with asyncio.TaskGroup() as tasks:
        for item in asked:
            tasks.create_task(one(item), name="ask a broker")
    if failures and len(failures) == len(asked):
        raise failures[0]
    for error in failures:
        log.info("a broker is shown as it was before: %s", error)


def _urls_of(broker_id: str) -> BrokerUrls:
    return BrokerUrls(broker_id, f"http://{broker_id}", f"https://{broker_id}")


def _id_of(url: str) -> str:
    return url.rpartition("://")[2].rstrip("/")
