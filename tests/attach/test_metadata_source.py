"""When the metadata store counts as outdated: the node of a migration, and the admin API."""

import logging
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from broker_ctl.attach import metadata_source
from broker_ctl.attach.admin import PulsarAdmin
from broker_ctl.attach.metadata_source import Cause, MetadataSource, outdated_row
from broker_ctl.clock import SystemClock
from broker_ctl.coordination.membership.foreign_brokers import ForeignBrokers
from broker_ctl.errors import PeerUnreachable
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.store import paths
from tests.support.clusters.foreign_cluster import ForeignCluster, foreign_cluster

MAX_AGE_S = 60.0


class Later(SystemClock):
    """The system's clock, ahead of it by some seconds."""

    ahead_s = 0.0

    def now_s(self) -> float:
        return super().now_s() + self.ahead_s

    def wall_ms(self) -> int:
        return super().wall_ms() + round(self.ahead_s * 1000)


@dataclass
class Scene:
    cluster: ForeignCluster
    store: MemoryStore
    clock: Later
    admin: PulsarAdmin
    source: MetadataSource

    async def found(self) -> tuple[Cause, str] | None:
        """The finding, by a comparison of now."""
        self.clock.ahead_s += 15.0
        found = await self.source.check()
        return None if found is None else (found.cause, found.why)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_source, "_BETWEEN_LOOKS_S", 0.0)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with (
        foreign_cluster(bundles=3) as cluster,
        HttpClient(timeout_s=5.0, max_body_bytes=1 << 20) as http,
    ):
        store = MemoryStore(cluster.ensemble, "attach")
        await store.start()
        brokers, clock = ForeignBrokers(store, rng=random.Random(1)), Later()
        await brokers.start()
        await brokers.wait_synced()
        admin = PulsarAdmin(cluster.urls, http, lambda: brokers.urls, act_timeout_s=5.0)
        source = MetadataSource(store, admin, brokers, clock, max_report_age_s=MAX_AGE_S)
        yield Scene(cluster, store, clock, admin, source)
        await brokers.close()
        await store.close()


async def test_a_store_that_the_brokers_use_is_not_outdated(scene: Scene) -> None:
    assert await scene.found() is None
    assert await scene.source.obstacle() == ""
    assert outdated_row(scene.source.outdated) is None


@pytest.mark.parametrize("phase", ["NOT_STARTED", "FAILED"])
async def test_a_migration_that_has_not_begun_or_has_failed_leaves_the_store_in_use(
    scene: Scene, phase: str
) -> None:
    await scene.cluster.migrate(phase)
    assert await scene.found() is None


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        ("PREPARATION", "migrates its metadata to oxia://oxia:6648/pulsar (phase PREPARATION)"),
        ("COPYING", "(phase COPYING): brokers write nothing to this store"),
        ("COMPLETED", "has migrated its metadata to oxia://oxia:6648/pulsar"),
        ("DRAINING_BOOKIES", "(phase DRAINING_BOOKIES)"),
    ],
)
async def test_a_migration_outdates_the_store_from_its_first_phase_on(
    scene: Scene, phase: str, expected: str
) -> None:
    assert await scene.source.check() is None
    await scene.cluster.migrate(phase)
    # No clock has moved: the node is read each time.
    found = await scene.source.check()
    assert found is not None
    assert found.cause is Cause.MIGRATION
    assert expected in found.why
    assert outdated_row(found) == {"cause": "migration", "why": found.why}


@pytest.mark.parametrize("data", [b"", b"[]", b'{"targetUrl": "oxia://x"}', b'{"phase": 3}'])
async def test_a_node_of_a_migration_that_cannot_be_read_counts_as_one(
    scene: Scene, data: bytes
) -> None:
    await scene.store.create(paths.METADATA_MIGRATION, data, make_parents=True)
    found = await scene.found()
    assert found is not None
    assert "may be migrated" in found[1]


async def test_a_failed_migration_ends_the_finding(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for phase in ("PREPARATION", "PREPARATION", "FAILED"):
        await scene.cluster.migrate(phase)
        await scene.found()
    said = [record.message for record in caplog.records]
    assert [text.partition(":")[0] for text in said] == [
        "attach does not act",
        "the cluster is read as it is again; attach acts as before",
    ]


async def test_brokers_that_the_admin_api_does_not_have_are_named(scene: Scene) -> None:
    first, *others = sorted(broker.broker_id for broker in scene.cluster.brokers)
    scene.cluster.elsewhere["brokers"] = [*others, "new:8080"]
    found = await scene.found()
    assert found is not None
    assert found[0] is Cause.BROKERS
    assert f"not those of the admin API, but without new:8080 and with {first}: check" in found[1]
    del scene.cluster.elsewhere["brokers"]
    assert await scene.found() is None


async def test_another_leader_than_that_of_the_admin_api_outdates_the_store(scene: Scene) -> None:
    scene.cluster.elsewhere["leaderBroker"] = {"serviceUrl": "http://other:8080"}
    found = await scene.found()
    assert found is not None
    assert found[0] is Cause.LEADER
    assert f"{scene.cluster.urls[0]} in this store, and http://other:8080 by the admin" in found[1]


async def test_a_difference_that_passes_is_a_change_seen_halfway(scene: Scene) -> None:
    cluster, admin = scene.cluster, scene.admin
    looks = 0

    async def halfway() -> str | None:
        nonlocal looks
        looks += 1
        return cluster.urls[2] if looks == 1 else cluster.urls[0]

    admin.leader = halfway  # type: ignore[method-assign]
    assert await scene.found() is None
    assert looks == 2


async def test_reports_that_nobody_writes_any_more_outdate_the_store(scene: Scene) -> None:
    assert await scene.found() is None
    scene.clock.ahead_s += MAX_AGE_S - 1.0
    await scene.cluster.report()
    assert await scene.found() is None
    scene.clock.ahead_s += MAX_AGE_S
    found = await scene.found()
    assert found is not None
    assert found[0] is Cause.REPORTS
    assert "no broker has written a load report to this store for 75 s" in found[1]


async def test_an_admin_api_that_does_not_answer_shows_nothing(scene: Scene) -> None:
    async def silent() -> tuple[str, ...]:
        raise PeerUnreachable("nobody answers")

    scene.admin.brokers = silent  # type: ignore[method-assign]
    scene.clock.ahead_s += MAX_AGE_S
    assert await scene.found() is None


async def test_a_comparison_is_made_again_after_some_seconds(scene: Scene) -> None:
    assert await scene.found() is None
    scene.cluster.elsewhere["brokers"] = []
    assert await scene.source.check() is None
    assert await scene.found() is not None


async def test_a_store_that_does_not_answer_is_an_obstacle(scene: Scene) -> None:
    await scene.store.close()
    assert (await scene.source.obstacle()).startswith("cannot read whether the cluster still uses")
