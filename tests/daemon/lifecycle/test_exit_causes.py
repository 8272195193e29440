"""Why a daemon ends by itself: the exit code and the last line say it."""

import asyncio
import logging

import pytest

from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.daemon.lifecycle import exits
from broker_ctl.errors import AuthFailed, HistoryBehind, NoAuth, RetriesUsedUp, StoreError
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.time import in_virtual_time
from tests.support.clusters.attached import attached_run
from tests.support.clusters.foreign_cluster import foreign_cluster
from tests.support.daemon.whole_daemon import whole_daemon
from tests.support.time.waiting import eventually

ENDS = [
    (RetriesUsedUp("no session after 30 s"), exits.RETRIES_USED_UP, "MaxRetries are used up"),
    (AuthFailed("authentication failed"), exits.NOT_ADMITTED, "refuses our credentials"),
    (NoAuth("what nobody has foreseen"), exits.FAILED, "what nobody has foreseen"),
]


@pytest.mark.parametrize(("error", "code", "message"), ENDS)
@pytest.mark.parametrize("which", ["store", "configuration"])
@in_virtual_time
async def test_a_store_that_gives_up_ends_the_daemon_and_it_says_which_and_why(
    error: StoreError, code: int, message: str, which: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        async with whole_daemon(configuration=MemoryEnsemble()) as run:
            await run.wait_ready()
            store = run.around.store if which == "store" else run.around.configuration
            store.give_up(error)
            async with asyncio.timeout(120.0):
                assert await run.daemon == code
            assert f"{store.name} has ended" in caplog.text
            assert message in caplog.text
            assert "TaskGroup" not in caplog.text


@in_virtual_time
async def test_a_store_that_gives_up_before_it_ever_was_connected_ends_it_alike() -> None:
    async with whole_daemon() as run:
        run.around.store.disconnect()
        await asyncio.sleep(1.0)
        run.around.store.give_up(AuthFailed("no"))
        async with asyncio.timeout(60.0):
            assert await run.daemon == exits.NOT_ADMITTED


@in_virtual_time
async def test_a_bundle_loaded_under_a_future_token_ends_the_daemon_as_a_restored_zookeeper(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """ZooKeeper accepts a daemon that has seen no transaction, and its broker process remembers."""
    with caplog.at_level(logging.ERROR):
        async with whole_daemon() as run:
            await run.wait_ready()
            (bundle,) = Ring.even(Namespace("public", "default"), 1).bundles
            token = run.around.store.last_zxid + 1_000
            await run.assembly.services.dataplane.load(bundle, token)
            run.ensemble.expire(run.around.store.session_id)
            async with asyncio.timeout(120.0):
                assert await run.daemon == exits.HISTORY_BEHIND
            assert f"{bundle} is loaded under token 0x{token:x}: the servers were" in caplog.text
            assert "TaskGroup" not in caplog.text
            assert await run.assembly.services.dataplane.loaded() == {}


@in_virtual_time
async def test_a_daemon_that_is_stopped_without_zookeeper_stops_and_logs_no_group(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        async with whole_daemon() as run:
            await run.wait_ready()
            run.around.store.disconnect()
            await asyncio.sleep(1.0)
            run.signals.ask()
            async with asyncio.timeout(120.0):
                assert await run.daemon == exits.STOPPED
    assert "TaskGroup" not in caplog.text


# Beside a Pulsar cluster.


@pytest.mark.parametrize(
    ("policy", "code"), [("shutdown", exits.SESSION_LOST), ("reconnect", None)]
)
async def test_beside_a_pulsar_cluster_the_policy_of_expiries_holds_too(
    policy: str, code: int | None
) -> None:
    async with (
        foreign_cluster() as cluster,
        attached_run(cluster, f"zookeeperSessionExpiredPolicy={policy}") as run,
    ):
        await eventually(lambda: run.is_leading)
        cluster.ensemble.expire(run.store.session_id)
        if code is None:
            await eventually(lambda: run.attached.foundation.watcher.epoch == 2 and run.is_leading)
        else:
            async with asyncio.timeout(60.0):
                assert await run.daemon == code


@pytest.mark.parametrize(
    ("why", "code"),
    [
        (AuthFailed("no"), exits.NOT_ADMITTED),
        (HistoryBehind("the servers were restored from a copy"), exits.HISTORY_BEHIND),
    ],
    ids=["refused credentials", "a restored ZooKeeper"],
)
async def test_beside_a_pulsar_cluster_a_store_that_gives_up_ends_it_too(
    why: StoreError, code: int
) -> None:
    async with foreign_cluster() as cluster, attached_run(cluster) as run:
        await eventually(lambda: run.is_leading)
        run.store.give_up(why)
        async with asyncio.timeout(60.0):
            assert await run.daemon == code


async def test_beside_a_pulsar_cluster_every_metric_of_session_seat_and_caches_is_fed() -> None:
    async with foreign_cluster() as cluster, attached_run(cluster) as run:
        await eventually(lambda: run.is_leading)
        instruments = run.attached.foundation.instruments
        run.store.disconnect()
        run.store.reconnect()
        await eventually(lambda: run.store.is_connected and run.attached.election.leadership)
        shown = {one.name: list(one.samples()) for one in instruments}
        for name in (
            "broker_ctl_session_events_total",
            "broker_ctl_lead_epoch",
            "broker_ctl_corrupt_nodes_total",
            "broker_ctl_store_requests_in_flight",
            "broker_ctl_cache_invalidate_all_total",
            "caffeine_cache_requests_total",
            "broker_ctl_deletions_queued",
            "broker_ctl_dead_tasks",
        ):
            assert shown[name], name
        (epoch,) = shown["broker_ctl_lead_epoch"]
        assert epoch.labels["seat"] == "attach"
        assert epoch.value >= 1
