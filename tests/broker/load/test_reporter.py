import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

import pytest

from broker_ctl.broker.load.host_usage import DataPlaneUsage
from broker_ctl.broker.load.reporter import LoadReporter, ReportForm, ReportReason, ReportRules
from broker_ctl.clock import SystemClock
from broker_ctl.coordination.bulk_acquire import Deletions
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.load import BundleStats, ResourceUsage, SystemUsage
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.dataplane.bundles.interface import Declared
from broker_ctl.errors import DataPlaneUnreachable
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.simulated import SimulatedDataPlane
from broker_ctl.simulation.workload.workload import Workload
from broker_ctl.store import paths
from broker_ctl.store.records.broker_ctl import Registration
from broker_ctl.store.records.load import LocalBrokerData
from broker_ctl.store.records.simple import LoadReport, decode_report
from broker_ctl.tasks import TaskScope
from tests.support.time.waiting import eventually

BROKER = "a:8080"
URLS = BrokerUrls(BROKER, web_url="http://a:8080", native_url="pulsar://a:6650")
RING = Ring.even(Namespace("public", "default"), 4)
# Nothing but what a test does is worth a report, and the test does not wait long for it.
CALM = ReportRules(min_interval_s=0.02, host_interval_s=60.0, stats_interval_s=60.0, settle_s=0.0)


class SteadyHost:
    """A host whose usage a test sets."""

    def __init__(self) -> None:
        self.cpu_percent = 10.0

    async def measure(self) -> SystemUsage:
        return SystemUsage(cpu=ResourceUsage(self.cpu_percent, 100.0))


class MoodyDataPlane(SimulatedDataPlane):
    """A simulated one that can stop answering, and know nothing of its usage."""

    is_silent = False
    has_no_word = False

    async def usage(self) -> SystemUsage | None:  # type: ignore[override] # as `DataPlane` allows
        return None if self.has_no_word else await super().usage()

    async def statistics(self) -> Mapping[Bundle, BundleStats]:
        if self.is_silent:
            raise DataPlaneUnreachable("silent")
        return await super().statistics()


class Scene:
    """One broker's reporter with everything real around it."""

    def __init__(self, store: MemoryStore, form: ReportForm = LocalBrokerData) -> None:
        self.store = store
        self.rules = CALM
        self.host = SteadyHost()
        self.dataplane = MoodyDataPlane(
            Workload.named("steady", seed=1), SystemClock(), broker_id=BROKER, rng=random.Random(1)
        )
        self.registry = Registry(
            store,
            Registration("n", 0, 0, URLS),
            Deletions(store, rng=random.Random(1)),
            tick_s=0.05,
            rng=random.Random(1),
        )
        self.reporter = LoadReporter(
            dataplane=self.dataplane,
            usage=self.host,
            registry=self.registry,
            clock=SystemClock(),
            rules=lambda: self.rules,
            urls=URLS,
            version="0.1.0",
            form=form,
        )

    async def written(self) -> LocalBrokerData:
        node = await self.store.get(paths.load_report(BROKER))
        assert node is not None
        return LocalBrokerData.decode(node.path, node.data)

    async def wait_bundles(self, *bundles: Bundle) -> LocalBrokerData:
        async def has_them() -> LocalBrokerData | None:
            data = await self.written()
            return data if set(data.load.bundles) == set(map(str, bundles)) else None

        return await eventually(has_them)

    def count(self, reason: ReportReason) -> int:
        return self.reporter.statistics().written.get(reason, 0)


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    store = MemoryStore(MemoryEnsemble())
    await store.start()
    await store.wait_connected()
    yield store
    await store.close()


@pytest.fixture
async def scene(store: MemoryStore) -> AsyncIterator[Scene]:
    """Registered, with one bundle, and past the report that is written for certain."""
    scene = Scene(store)
    await scene.dataplane.start()
    scene.dataplane.grant(1, float("inf"))
    await scene.dataplane.load(RING.bundles[0], 1)
    await scene.registry.register(await scene.reporter.first())
    async with TaskScope("test") as tasks:
        reporting = tasks.start(scene.reporter.run(), "reporter")
        await eventually(lambda: scene.count(ReportReason.FIRST) == 1)
        yield scene
        assert not reporting.done()
    await scene.dataplane.stop()
    await scene.registry.close()


async def test_a_broker_registers_with_a_full_report(store: MemoryStore) -> None:
    scene = Scene(store)
    await scene.dataplane.start()
    scene.dataplane.grant(1, float("inf"))
    await scene.dataplane.load(RING.bundles[0], 1)
    data = LocalBrokerData.decode(paths.load_report(BROKER), await scene.reporter.first())
    assert data.urls == URLS
    assert data.load.usage.cpu == ResourceUsage(10.0, 100.0)
    assert set(data.load.bundles) == {str(RING.bundles[0])}
    assert data.load.total.msg_rate > 0
    assert data.load.updated_ms >= data.load.started_ms > 1_600_000_000_000
    assert data.load.version == "0.1.0"
    assert (data.gains, data.losses) == ((str(RING.bundles[0]),), ())
    await scene.dataplane.stop()


async def test_the_version_is_that_of_the_broker_process_where_it_says_one(scene: Scene) -> None:
    async def reported_version() -> str:
        await scene.dataplane.load(RING.bundles[1], 2)
        scene.reporter.bundles_changed()
        said = (await scene.wait_bundles(*RING.bundles[:2])).load.version
        await scene.dataplane.unload(RING.bundles[1], 1.0)
        scene.reporter.bundles_changed()
        await scene.wait_bundles(RING.bundles[0])
        return said

    assert await reported_version() == "0.1.0", "the daemon's"
    scene.dataplane.declared = Declared(version="4.2.0")
    assert await reported_version() == "4.2.0"
    scene.dataplane.declared = Declared()
    assert await reported_version() == "0.1.0"


async def test_after_registering_one_report_is_written_for_certain(scene: Scene) -> None:
    assert scene.reporter.statistics().written == {ReportReason.FIRST: 1}
    # Another session: the broker registers again, then writes one report for certain.
    await scene.reporter.first()
    await eventually(lambda: scene.count(ReportReason.FIRST) == 2)


async def test_a_bundle_that_comes_or_goes_is_reported_soon(scene: Scene) -> None:
    first, second = RING.bundles[:2]
    await scene.dataplane.load(second, 2)
    scene.reporter.bundles_changed()
    data = await scene.wait_bundles(first, second)
    assert (data.gains, data.losses) == ((str(second),), ())
    await scene.dataplane.fence(first)
    scene.reporter.bundles_changed()
    data = await scene.wait_bundles(second)
    assert (data.gains, data.losses) == ((), (str(first),))
    assert scene.count(ReportReason.BUNDLES) == 2


async def test_gains_and_losses_add_up_until_they_are_written(scene: Scene) -> None:
    await scene.registry.unregister()
    first, second, third = RING.bundles[:3]
    await scene.dataplane.load(second, 2)
    scene.reporter.bundles_changed()
    await eventually(lambda: len(scene.reporter.current().load.bundles) == 2)
    await scene.dataplane.load(third, 2)
    scene.reporter.bundles_changed()
    await eventually(lambda: len(scene.reporter.current().load.bundles) == 3)
    await scene.dataplane.fence(second)
    scene.reporter.bundles_changed()
    await eventually(lambda: str(second) not in scene.reporter.current().load.bundles)
    current = scene.reporter.current()
    assert current.gains == (str(second), str(third))
    assert current.losses == (str(second),)
    await scene.registry.register(b"{}")
    assert (await scene.wait_bundles(first, third)).gains == (str(second), str(third))


async def test_a_change_of_usage_is_reported_and_a_small_one_is_not(scene: Scene) -> None:
    scene.rules = replace(CALM, host_interval_s=0.0)
    scene.host.cpu_percent = 15.0
    await eventually(lambda: scene.reporter.current().load.usage.cpu.usage == 15.0)
    assert scene.count(ReportReason.USAGE) == 0
    scene.host.cpu_percent = 30.0
    await eventually(lambda: scene.count(ReportReason.USAGE) == 1)
    assert (await scene.written()).load.usage.cpu.usage == 30.0


async def test_a_report_that_grows_old_is_written_again_under_a_new_time(scene: Scene) -> None:
    before = await scene.written()
    scene.rules = replace(CALM, max_interval_s=0.1)
    await eventually(lambda: scene.count(ReportReason.AGE) >= 2)
    assert (await scene.written()).load.updated_ms > before.load.updated_ms


async def test_a_data_plane_that_is_silent_leaves_the_last_word_standing(scene: Scene) -> None:
    scene.dataplane.is_silent = True
    scene.rules = replace(CALM, stats_interval_s=0.0)
    await eventually(lambda: scene.reporter.statistics().unmeasured >= 2)
    assert set(scene.reporter.current().load.bundles) == {str(RING.bundles[0])}


async def test_a_store_that_does_not_take_it_is_asked_again(
    scene: Scene, store: MemoryStore
) -> None:
    # The node is gone behind the registry's back, as when the session just ended.
    await store.delete(paths.load_report(BROKER))
    await scene.dataplane.load(RING.bundles[1], 2)
    scene.reporter.bundles_changed()
    await eventually(lambda: scene.reporter.statistics().refused >= 2)
    await store.create(paths.load_report(BROKER), b"{}")
    await scene.wait_bundles(*RING.bundles[:2])


async def test_a_broker_that_is_not_registered_publishes_no_report(
    scene: Scene, store: MemoryStore
) -> None:
    await scene.registry.unregister()
    await scene.dataplane.load(RING.bundles[1], 2)
    scene.reporter.bundles_changed()
    await eventually(lambda: len(scene.reporter.current().load.bundles) == 2)
    assert await store.exists(paths.load_report(BROKER)) is None
    assert scene.reporter.statistics().refused == 0


async def test_the_data_plane_has_the_first_word_on_usage_and_the_host_the_other(
    scene: Scene,
) -> None:
    own = await DataPlaneUsage(scene.dataplane, scene.host).measure()
    assert own == await scene.dataplane.usage()

    scene.dataplane.has_no_word = True
    assert (await DataPlaneUsage(scene.dataplane, scene.host).measure()).cpu.usage == 10.0


async def test_a_report_is_bounded_and_says_how_much_it_left_out(
    scene: Scene, store: MemoryStore
) -> None:
    bundles = Ring.even(Namespace("public", "many"), 200).bundles
    scene.rules = replace(CALM, max_bytes=32_768)
    for bundle in bundles:
        await scene.dataplane.load(bundle, 2)
    scene.reporter.bundles_changed()
    await eventually(lambda: scene.count(ReportReason.BUNDLES) == 1)
    node = await store.get(paths.load_report(BROKER))
    assert node is not None
    assert len(node.data) <= 32_768
    data = LocalBrokerData.decode(node.path, node.data)
    load = data.load
    assert load.bundle_count == 201
    # Bundles that came are reported as far as there is room: a sixteenth.
    assert 0 < sum(map(len, data.gains)) <= 2048
    assert 0 < len(load.bundles) < 201
    assert scene.reporter.statistics().unlisted == load.unlisted_bundles == 201 - len(load.bundles)


async def test_an_unlisted_bundle_that_goes_causes_a_report(scene: Scene) -> None:
    scene.rules = replace(CALM, max_bytes=8192)
    await scene.dataplane.load(RING.bundles[1], 2)
    scene.reporter.bundles_changed()
    await eventually(lambda: scene.count(ReportReason.BUNDLES) == 1)
    assert scene.reporter.current().load.bundles == {}
    await scene.dataplane.fence(RING.bundles[0])
    scene.reporter.bundles_changed()
    await eventually(lambda: scene.count(ReportReason.BUNDLES) == 2)
    assert (await scene.written()).load.bundle_count == 1


async def test_another_load_manager_writes_its_own_record(store: MemoryStore) -> None:
    scene = Scene(store, form=LoadReport)
    await scene.dataplane.start()
    scene.dataplane.grant(1, float("inf"))
    await scene.dataplane.load(RING.bundles[0], 1)
    report = decode_report(paths.load_report(BROKER), await scene.reporter.first())
    assert isinstance(report, LoadReport)
    assert set(report.load.bundles) == {str(RING.bundles[0])}
    assert report.gains == (str(RING.bundles[0]),)
    await scene.dataplane.stop()
