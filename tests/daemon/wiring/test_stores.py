"""From the settings to the stores: red where a line that hands one on is taken out."""

import asyncio
import random
from pathlib import Path

import pytest

from broker_ctl.clock import Clock
from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.daemon.wiring import stores
from broker_ctl.daemon.wiring.keys import NewestIdentity, identity_of
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.instruments.kinds import Histogram
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.sources import load
from broker_ctl.store import paths
from broker_ctl.store.batching.batch_rules import BatchRules
from broker_ctl.store.batching.store import BatchedStore
from broker_ctl.store.instrumented import InstrumentedStore
from broker_ctl.store.interface import NO_SESSION, BulkStore, Create, Operation, SavedSession
from broker_ctl.store.records.policies import TenantInfo
from broker_ctl.store.zookeeper.access import ANONYMOUS
from broker_ctl.store.zookeeper.store import StoreOptions
from tests.support.clusters.tenants import make_tenants
from tests.support.daemon.in_memory_daemon import running
from tests.support.daemon.whole_daemon import whole_daemon
from tests.support.time.waiting import eventually

BUNDLES = 64
URL = "metadataStoreUrl=zk:h1:2181,h2:2182/chroot"


def counted(histogram: Histogram) -> float:
    return sum(sample.value for sample in histogram.samples() if sample.name.endswith("_count"))


class Opened:
    """In the place of `ZooKeeperStore`: what it was opened with."""

    def __init__(self, options: StoreOptions, _rng: random.Random) -> None:
        self.options = options


KEPT = SavedSession(77, b"password", 5)


def opened(
    monkeypatch: pytest.MonkeyPatch, *overrides: str, resumed: SavedSession = NO_SESSION
) -> tuple[StoreOptions, StoreOptions, StoreInstruments]:
    monkeypatch.setattr(stores, "ZooKeeperStore", Opened)
    settings, instruments = load(None, {}, [URL, *overrides]), StoreInstruments()
    both = stores.open_stores(settings, random.Random(1), instruments, resumed, Reloader())
    first, second = both
    assert isinstance(first, Opened)
    assert isinstance(second, Opened)
    return first.options, second.options, instruments


def test_servers_limits_and_deadlines_reach_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    options, same, _ = opened(
        monkeypatch,
        "metadataStoreSessionTimeoutMillis=41000",
        "metadataStoreOperationTimeoutSeconds=17",
        "zookeeperMaxInFlightRequests=333",
        "zookeeperJuteMaxBufferBytes=2000000",
        "zookeeperSessionReconnectMaxRetries=9",
        resumed=KEPT,
    )
    assert options is same
    assert (options.hosts, options.chroot) == ("h1:2181,h2:2182", "/chroot")
    assert (options.session_timeout_s, options.operation_timeout_s) == (41.0, 17.0)
    assert (options.max_in_flight, options.max_frame_bytes) == (333, 2_000_000)
    assert options.resumed == KEPT
    assert (options.max_retries, options.identity, options.tls) == (9, ANONYMOUS, None)


def test_credentials_and_tls_reach_the_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = tmp_path / "digest"
    secret.write_text("user:password\n")
    options, _, _ = opened(
        monkeypatch, f"zookeeperAuthDigestFile={secret}", "zookeeperTlsEnabled=true"
    )
    assert isinstance(options.identity, NewestIdentity)
    assert options.identity.newest.digests == (b"user:password",)
    assert options.tls is not None


def test_the_configuration_s_own_store_never_ends_the_process_for_an_outage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options, other, _ = opened(
        monkeypatch,
        "configurationMetadataStoreUrl=zk:g1:2181",
        "zookeeperSessionReconnectMaxRetries=9",
        resumed=KEPT,
    )
    assert (options.name, other.name) == ("metadata-store", "configuration-metadata-store")
    assert (other.hosts, other.max_retries, other.resumed) == ("g1:2181", -1, NO_SESSION)


def test_each_value_that_the_store_reports_is_measured_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for is_batching in ("true", "false"):
        options, _, instruments = opened(monkeypatch, f"metadataStoreBatchingEnabled={is_batching}")
        # In batches a request waits before the line, and is measured there.
        assert (options.on_sent is None) is (is_batching == "true")
        if options.on_sent is not None:
            options.on_sent(0.002)
            assert counted(instruments.queue_wait_ms) == 1
        assert options.on_reply is not None
        options.on_reply("get", 0.003)
        assert counted(instruments.round_trip_s) == 1
        assert options.on_no_quorum is not None
        options.on_no_quorum(2)
        (without_quorum,) = instruments.without_quorum.samples()
        assert (without_quorum.labels, without_quorum.value) == ({"name": options.name}, 2)
        assert options.on_resolved is not None
        options.on_resolved("set", "unknown")
        (ambiguous,) = instruments.ambiguous_results.samples()
        assert ambiguous.labels == {"op": "set", "resolution": "unknown"}


@in_virtual_time
async def test_how_requests_are_batched_is_as_the_settings_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[BatchRules] = []

    class Gathered(BatchedStore):
        def __init__(
            self, store: BulkStore, rules: BatchRules, clock: Clock, instruments: StoreInstruments
        ) -> None:
            seen.append(rules)
            super().__init__(store, rules, clock, instruments)

    monkeypatch.setattr(stores, "BatchedStore", Gathered)
    settings = load(
        None,
        {},
        [
            "metadataStoreBatchingFlush=fixedDelay",
            "metadataStoreBatchingMaxDelayMillis=7",
            "metadataStoreBatchingMaxOperations=23",
            "metadataStoreBatchingMaxSizeKb=64",
            "zookeeperJuteMaxBufferBytes=2000000",
            "metadataStoreOperationTimeoutSeconds=17",
        ],
    )
    store = MemoryStore(MemoryEnsemble())
    stores.batched_store(store, settings, StoreInstruments(), LoopClock())
    (rules,) = seen
    assert not rules.is_adaptive
    assert (rules.max_delay_s, rules.max_operations) == (0.007, 23)
    assert (rules.max_bytes, rules.max_frame_bytes) == (64 * 1024, 2_000_000)
    assert rules.operation_timeout_s == 17.0


@in_virtual_time
async def test_requests_are_measured_without_batches_too() -> None:
    settings = load(None, {}, ["metadataStoreBatchingEnabled=false"])
    store = MemoryStore(MemoryEnsemble())
    batched = stores.batched_store(store, settings, StoreInstruments(), LoopClock())
    assert isinstance(batched, InstrumentedStore)


@pytest.mark.parametrize(
    "override",
    [
        "metadataStoreBatchingEnabled=false",
        "metadataStoreBatchingFlush=fixedDelay",
        "metadataStoreCacheExpirySeconds=9",
    ],
)
@in_virtual_time
async def test_a_daemon_works_with_it(override: str) -> None:
    async with whole_daemon(override) as run:
        await run.wait_ready()
        await run.shown.services.policies.tenants.create("t", TenantInfo(allowed_clusters=("c",)))
        await run.shown.services.namespaces.create(Namespace("t", "ns"), bundles=2)
        (bundle, _) = (await run.shown.services.namespaces.ring(Namespace("t", "ns"))).bundles
        assert await run.assembly.services.ownership.acquire(bundle) > 0
        assert sum(run.readings("pulsar_metadata_store_put_bytes_total").values()) > 0


@in_virtual_time
async def test_cached_owners_are_refreshed_as_often_as_configured() -> None:
    async with whole_daemon("metadataStoreCacheExpirySeconds=9") as run:
        await run.wait_ready()
        cache = run.assembly.services.owners.cache
        path = paths.ownership(Bundle.parse("t/ns/0x00000000_0xffffffff"))
        await cache.get(path)
        await asyncio.sleep(8.0)
        await cache.get(path)
        assert cache.refreshes == 1


def test_a_client_certificate_is_an_identity_and_closes_new_nodes() -> None:
    tls = [URL, "zookeeperTlsEnabled=true"]
    own = ["zookeeperTlsCertFile=/run/cert.pem", "zookeeperTlsKeyFile=/run/key.pem"]
    for entries, is_known in ((tls, False), ([*tls, *own], True)):
        settings = load(None, {}, [*entries, "allowOpenMetadataStore=true"])
        assert identity_of(settings).is_known is is_known
        assert stores.node_access(settings).is_restricted is is_known


@in_virtual_time
async def test_owner_nodes_that_are_wanted_together_share_transactions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as run:
        services, store = run.assembly.services, run.around.store
        namespace = Namespace("t", "ns")
        await make_tenants(run.assembly.foundation.configuration, "c", namespace.tenant)
        await services.namespaces.create(namespace, bundles=BUNDLES)
        bundles = (await services.namespaces.ring(namespace)).bundles
        sizes: list[int] = []
        commit = store._commit

        async def counted(operations: tuple[Operation, ...], deadline_s: float) -> object:
            creates = [one for one in operations if isinstance(one, Create)]
            sizes.append(sum(one.path.startswith("/namespace/t/ns/") for one in creates))
            return await commit(operations, deadline_s)

        monkeypatch.setattr(store, "_commit", counted)
        async with asyncio.TaskGroup() as acquiring:
            for bundle in bundles:
                acquiring.create_task(services.ownership.acquire(bundle))
        written = [size for size in sizes if size]
        assert sum(written) >= BUNDLES
        assert len(written) <= BUNDLES / 8


async def test_a_leader_reads_partitioned_topics() -> None:
    async with running() as run:
        balancer = run.assembly.balancer
        await eventually(lambda: balancer.term is not None and balancer.term.topics is not None)
