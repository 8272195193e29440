"""A Pulsar cluster that is played: nodes as its brokers write them, and its admin API over HTTP.

The payloads are Pulsar's (docs: pulsar-hash, pulsar-ownership-payload, pulsar-load-data), written
out here and not by the code under test. What is unloaded is taken again at once, as clients would
have it.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from zlib import crc32

from aiohttp import web

from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.daemon.wiring.stores import OwnStore
from broker_ctl.errors import NodeExists
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.store import paths
from broker_ctl.store.interface import CreateMode, MetadataStore
from tests.support.http.web_server import serving
from tests.support.pulsar.played_reads import ForeignReads

CLUSTER = "played"
NAMESPACE = Namespace("public", "default")
MODULAR = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
DYNAMIC = (
    "loadBalancerSheddingEnabled",
    "loadBalancerAutoBundleSplitEnabled",
    "loadBalancerAutoUnloadSplitBundlesEnabled",
)
# Of the link of each broker.
_CAPACITY_BYTES_S = 1e8
# Until clients ask again for what was closed.
_CLOSING_S = 0.05


@dataclass
class PlayedBroker:
    """One broker; its id is where its admin API is served."""

    store: OwnStore
    broker_id: str = ""
    owned: set[Bundle] = field(default_factory=set)


@dataclass
class ForeignCluster:
    """A cluster of Pulsar that a test plays: its brokers, their bundles and their behaviour.

    Attributes:
        traffic: bytes a second of each bundle.
        running: what all brokers run with, of what may be changed at run time.
        asked: unloads and splits that came, as ``PUT path?query``.
        honours: whether a destination is honoured; else the first other broker takes the bundle.
        refuses: a status that every act is answered with; 0: acts are carried out.
        is_mute: acts are carried out, and the connection is cut without an answer.
        abandons: what is unloaded is taken by nobody.
        notes_ranges: a destination is noted by the range alone, whatever the namespace is.
        parts_nothing: a split finds no boundary.
        is_silent: reads of the brokers' load and bundles are not answered.
        gate: acts wait for it.
        takes_claims: whether an authoritative lookup acquires a bundle without an owner.
        stray_s: how long after an unload the first lookup of a client comes.
        claims: bundles of which the owner was looked up.
        elsewhere: what the admin API says in place of what the store has, by path.
    """

    ensemble: MemoryEnsemble = field(default_factory=MemoryEnsemble)
    brokers: list[PlayedBroker] = field(default_factory=list)
    traffic: dict[Bundle, float] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=lambda: dict.fromkeys(DYNAMIC, "false"))
    overrides: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    honours: bool = True
    refuses: int = 0
    is_mute: bool = False
    abandons: bool = False
    notes_ranges: bool = False
    parts_nothing: bool = False
    is_silent: bool = False
    load_manager: str = MODULAR
    version: str = "4.0.8"
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    takes_claims: bool = False
    stray_s: float = 0.0
    claims: list[str] = field(default_factory=list)
    elsewhere: dict[str, object] = field(default_factory=dict)
    _writes: int = 0
    _noted: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gate.set()

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(f"http://{broker.broker_id}" for broker in self.brokers)

    @property
    def store(self) -> MetadataStore:
        """A store for one that only reads."""
        return self.brokers[0].store

    def owner(self, bundle: Bundle) -> str | None:
        return next((each.broker_id for each in self.brokers if bundle in each.owned), None)

    def broker(self, broker_id: str) -> PlayedBroker:
        return next(each for each in self.brokers if each.broker_id == broker_id)

    async def tree(self) -> dict[str, bytes]:
        """Every node that is not ours, with its content."""
        found: dict[str, bytes] = {}

        async def walk(path: str) -> None:
            if path == "/broker-ctl":
                return
            node = await self.store.get(path or "/")
            if node is not None:
                found[path] = node.data
            for name in await self.store.children(path or "/"):
                await walk(f"{path}/{name}")

        await walk("")
        return found

    async def migrate(self, phase: str, target: str = "oxia://oxia:6648/pulsar") -> None:
        """The coordinator of a migration writes its phase."""
        data = json.dumps({"phase": phase, "targetUrl": target}).encode()
        try:
            await self.store.create(paths.METADATA_MIGRATION, data, make_parents=True)
        except NodeExists:
            await self.store.set(paths.METADATA_MIGRATION, data)

    # What the brokers write.

    async def found(self, bundles: int) -> tuple[Bundle, ...]:
        """The cluster's and the namespace's nodes; nobody owns anything yet."""
        ring = Ring.even(NAMESPACE, bundles)
        await self._put(f"{paths.CLUSTERS}/{CLUSTER}", {"brokerServiceUrl": "pulsar://x:6650"})
        await self._put(paths.policies(NAMESPACE), {"bundles": _bundle_data(ring)})
        await self._put(paths.local_policies(NAMESPACE), {"bundles": _bundle_data(ring)})
        leader = {"serviceUrl": self.urls[0], "brokerId": self.brokers[0].broker_id}
        await self._put(paths.LOADBALANCE_ELECTION.node_path, leader)
        return ring.bundles

    async def take(self, broker: PlayedBroker, bundle: Bundle) -> None:
        """A broker acquires a bundle."""
        payload = {
            "nativeUrl": "pulsar://x:6650",
            "httpUrl": f"http://{broker.broker_id}",
            "disabled": False,
            "advertisedListeners": {},
        }
        data, path = json.dumps(payload).encode(), paths.ownership(bundle)
        await broker.store.create(path, data, CreateMode.EPHEMERAL, make_parents=True)
        broker.owned.add(bundle)

    async def release(self, broker: PlayedBroker, bundle: Bundle) -> None:
        await broker.store.delete(paths.ownership(bundle))
        broker.owned.discard(bundle)

    async def open_session(
        self, connect: Callable[[MemoryEnsemble], OwnStore] = MemoryStore
    ) -> OwnStore:
        """A session of a broker."""
        store = connect(self.ensemble)
        await store.start()
        await store.wait_connected()
        return store

    async def close(self) -> None:
        """End the sessions of all brokers."""
        for broker in self.brokers:
            await broker.store.close()

    async def restart(self, broker_id: str) -> None:
        """A broker stops in order, and starts again in another session."""
        broker = self.broker(broker_id)
        for bundle in sorted(broker.owned):
            await self.release(broker, bundle)
        await broker.store.close()
        broker.store = await self.open_session()
        await self.report()

    async def report(self) -> None:
        """Each broker publishes its load report."""
        for broker in self.brokers:
            path = paths.load_report(broker.broker_id)
            data = json.dumps(self.report_of(broker)).encode()
            try:
                await broker.store.create(path, data, CreateMode.EPHEMERAL, make_parents=True)
            except NodeExists:
                await broker.store.set(path, data)

    def link_percent(self, broker: PlayedBroker) -> float:
        """How much of its link a broker uses."""
        return sum(self.traffic.get(b, 0.0) for b in broker.owned) / _CAPACITY_BYTES_S * 100

    def report_of(self, broker: PlayedBroker) -> dict[str, object]:
        """The load report that a broker would write now."""
        self._writes += 1
        lines = {str(bundle): self.traffic.get(bundle, 0.0) for bundle in sorted(broker.owned)}
        bytes_s = sum(lines.values())
        idle = {"usage": 0.0, "limit": 100.0}
        link = {"usage": bytes_s * 8 / 1000, "limit": _CAPACITY_BYTES_S * 8 / 1000}
        return {
            "webServiceUrl": f"http://{broker.broker_id}",
            "pulsarServiceUrl": "pulsar://x:6650",
            "persistentTopicsEnabled": True,
            "nonPersistentTopicsEnabled": True,
            "cpu": idle,
            "memory": idle,
            "directMemory": idle,
            "bandwidthIn": link,
            "bandwidthOut": idle,
            "msgThroughputIn": bytes_s,
            "msgThroughputOut": 0.0,
            "msgRateIn": bytes_s / 1000,
            "msgRateOut": 0.0,
            "lastUpdate": 1_700_000_000_000 + self._writes,
            "lastStats": {name: _line(rate) for name, rate in lines.items()},
            "numTopics": 10 * len(lines),
            "numBundles": len(lines),
            "numConsumers": 0,
            "numProducers": 0,
            "bundles": list(lines),
            "lastBundleGains": [],
            "lastBundleLosses": [],
            "brokerVersionString": self.version,
            "protocols": {},
            "advertisedListeners": {},
            "loadManagerClassName": self.load_manager,
            "startTimestamp": 1_700_000_000_000,
            "loadReportType": "LocalBrokerData",
        }

    async def _put(self, path: str, payload: object) -> None:
        await self.store.create(path, json.dumps(payload).encode(), make_parents=True)

    # The admin API.

    def app(self) -> web.Application:
        app = web.Application()
        at, configuration = (
            "/admin/v2/namespaces/{t}/{n}/{range}",
            "/admin/v2/brokers/configuration",
        )
        app.add_routes(
            [
                web.get("/admin/v2/clusters", _json_of(lambda: [CLUSTER])),
                web.get("/admin/v2/brokers", self._live),
                web.get("/admin/v2/brokers/leaderBroker", _json_of(self._leader)),
                web.get("/admin/v2/brokers/health", _json_of(lambda: "ok")),
                web.get(configuration, _json_of(lambda: list(DYNAMIC))),
                web.get(f"{configuration}/values", _json_of(lambda: self.overrides)),
                web.get(f"{configuration}/runtime", _json_of(self._effective)),
                web.post(f"{configuration}/{{key}}/{{value}}", self._override),
                web.delete(f"{configuration}/{{key}}", self._drop_override),
                web.put(f"{at}/unload", self._asked(self._unload)),
                web.put(f"{at}/split", self._asked(self._split)),
                web.get("/lookup/v2/topic/{domain}/{t}/{n}/{local}", self._look_up),
                *ForeignReads(self).routes(),
            ]
        )
        return app

    async def _live(self, _: web.Request) -> web.Response:
        live = await self.store.children(paths.LOAD_REPORTS)
        return web.json_response(self.elsewhere.get("brokers", live))

    def _leader(self) -> object:
        return self.elsewhere.get("leaderBroker", {"serviceUrl": self.urls[0]})

    def _effective(self) -> dict[str, str]:
        return {"loadManagerClassName": self.load_manager, **self.running, **self.overrides}

    async def _override(self, request: web.Request) -> web.Response:
        self.overrides[request.match_info["key"]] = request.match_info["value"]
        return web.Response(status=200)

    async def _drop_override(self, request: web.Request) -> web.Response:
        self.overrides.pop(request.match_info["key"], None)
        return web.Response(status=204)

    def _asked(
        self, act: Callable[[web.Request, Bundle], Awaitable[None]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(request: web.Request) -> web.Response:
            self.asked.append(f"{request.method} {request.path_qs}")
            await self.gate.wait()
            if self.refuses:
                return web.json_response({"reason": "so it is"}, status=self.refuses)
            info = request.match_info
            await act(request, Bundle.parse(f"{info['t']}/{info['n']}/{info['range']}"))
            if self.is_mute and request.transport is not None:
                request.transport.close()
            return web.Response(status=204)

        return answer

    async def _unload(self, request: web.Request, bundle: Bundle) -> None:
        owner, wanted = self.owner(bundle), request.query["destinationBroker"]
        if owner is None:
            return
        key = str(bundle.range if self.notes_ranges else bundle)
        self._noted[key] = wanted
        await self.release(self.broker(owner), bundle)
        await asyncio.sleep(self.stray_s or (_CLOSING_S if self.notes_ranges else 0))
        if self.owner(bundle) is not None:
            return
        wanted = self._noted.pop(key, "")
        others = [each.broker_id for each in self.brokers if each.broker_id not in {owner, wanted}]
        if not self.abandons:
            await self.take(self.broker((self.honours and wanted) or others[0]), bundle)
        await self.report()

    async def _look_up(self, request: web.Request) -> web.Response:
        """A broker that is asked as the authority acquires what nobody owns."""
        info, asked = request.match_info, self.broker(request.host)
        namespace = Namespace(info["t"], info["n"])
        position = crc32(f"{info['domain']}://{namespace}/{info['local']}".encode())
        (bundle,) = (
            one for one in self.traffic if one.namespace == namespace and position in one.range
        )
        if self.owner(bundle) is None:
            if not self.takes_claims:
                raise web.HTTPServiceUnavailable
            await self.take(asked, bundle)
            await self.report()
        self.claims.append(str(bundle))
        return web.json_response({"httpUrl": f"http://{self.owner(bundle)}"})

    async def _split(self, _: web.Request, bundle: Bundle) -> None:
        """In halves, whatever the algorithm."""
        owner = self.owner(bundle)
        node = await self.store.get(paths.local_policies(NAMESPACE))
        assert node is not None
        points = [int(text, 16) for text in json.loads(node.data)["bundles"]["boundaries"]]
        if owner is None or self.parts_nothing:
            return
        middle = (bundle.range.low + bundle.range.high) // 2
        ring = Ring(NAMESPACE, tuple(sorted([*points, middle])), 0)
        data = json.dumps({"bundles": _bundle_data(ring)}).encode()
        await self.store.set(paths.local_policies(NAMESPACE), data)
        broker = self.broker(owner)
        await self.release(broker, bundle)
        for child in bundle.cut((middle,)):
            self.traffic[child] = self.traffic.get(bundle, 0.0) / 2
            await self.take(broker, child)
        await self.report()


def _bundle_data(ring: Ring) -> dict[str, object]:
    boundaries = [f"0x{point:08x}" for point in ring.boundaries]
    return {"boundaries": boundaries, "numBundles": len(boundaries) - 1}


def _line(bytes_s: float) -> dict[str, float]:
    return {
        "msgRateIn": bytes_s / 1000,
        "msgThroughputIn": bytes_s,
        "msgRateOut": 0.0,
        "msgThroughputOut": 0.0,
        "consumerCount": 0,
        "producerCount": 0,
        "topics": 10,
        "cacheSize": 0,
    }


def _json_of(value: Callable[[], object]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response(value())

    return answer


@asynccontextmanager
async def foreign_cluster(
    brokers: int = 3,
    bundles: int = 12,
    bytes_s: float = 8e6,
    connect: Callable[[MemoryEnsemble], OwnStore] = MemoryStore,
) -> AsyncIterator[ForeignCluster]:
    """The first broker owns all bundles but one of each other, and all have reported."""
    cluster = ForeignCluster()
    async with AsyncExitStack() as ends:
        ends.push_async_callback(cluster.close)
        for _ in range(brokers):
            store = await cluster.open_session(connect)
            url = await ends.enter_async_context(serving(cluster.app()))
            cluster.brokers.append(PlayedBroker(store, url.removeprefix("http://")))
        for number, bundle in enumerate(await cluster.found(bundles)):
            cluster.traffic[bundle] = bytes_s
            holder = number if number < brokers else 0
            await cluster.take(cluster.brokers[holder], bundle)
        await cluster.report()
        yield cluster
