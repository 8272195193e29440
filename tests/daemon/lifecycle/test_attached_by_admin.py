"""The daemon beside a Pulsar cluster that it reads by the admin API alone; no store at all."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker_ctl.attach.attached import Attached
from broker_ctl.attach.lifecycle import AttachedDaemon, observing
from broker_ctl.clock import SystemClock
from broker_ctl.core.strategies.load_managers import EXTENSIBLE, MODULAR
from broker_ctl.daemon.lifecycle.systemd import Notifier, StopSignals
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.errors import SettingsError
from broker_ctl.settings.sources import read
from broker_ctl.settings.startable import start_problems
from broker_ctl.store import paths
from tests.support.clusters.attached import attached_settings
from tests.support.clusters.foreign_cluster import ForeignCluster, foreign_cluster
from tests.support.time.waiting import eventually

ACT = "pulsarAct=true"


@pytest.fixture
async def cluster() -> AsyncIterator[ForeignCluster]:
    async with foreign_cluster() as played:
        yield played


def counts(cluster: ForeignCluster) -> list[int]:
    return [len(broker.owned) for broker in cluster.brokers]


def beside(
    cluster: ForeignCluster, state: Path, *overrides: str, is_observer: bool = False
) -> Attached:
    url = f"pulsarStateUrl=file:{state}"
    settings = attached_settings(cluster, url, "pulsarAdminPollMillis=100", *overrides)
    environment = Environment(SystemClock(), random.Random(1), is_observer=is_observer)
    return Attached(settings, environment)


@asynccontextmanager
async def running(
    cluster: ForeignCluster, state: Path, *overrides: str
) -> AsyncIterator[tuple[Attached, StopSignals]]:
    attached, signals = beside(cluster, state, *overrides), StopSignals()
    daemon = AttachedDaemon(attached, Notifier({}), signals)
    async with asyncio.TaskGroup() as group:
        group.create_task(daemon.run(), name="attached daemon")
        yield attached, signals
        signals.ask()


@pytest.mark.parametrize("manager", [MODULAR.class_name, EXTENSIBLE.class_name])
async def test_a_skewed_load_is_levelled_with_either_manager(
    cluster: ForeignCluster, tmp_path: Path, manager: str
) -> None:
    cluster.load_manager = manager
    async with running(cluster, tmp_path, ACT):
        await eventually(lambda: counts(cluster) == [4, 4, 4], what="four bundles each")
    assert len(cluster.asked) == 6
    assert await cluster.store.exists("/broker-ctl") is None


async def test_looking_on_takes_no_lock_and_writes_nothing(
    cluster: ForeignCluster, tmp_path: Path
) -> None:
    attached = beside(cluster, tmp_path / "none", is_observer=True)
    async with observing(attached):
        await eventually(lambda: attached.balancer.is_leading, what="an onlooker")
        plan = await attached.balancer.operations.plan(is_verbose=False)
    assert plan["moves"] > 0
    assert not (tmp_path / "none").exists()


async def test_a_successor_waits_for_the_state_and_goes_on_with_what_it_says(
    cluster: ForeignCluster, tmp_path: Path
) -> None:
    async with running(cluster, tmp_path) as (first, stop):
        await eventually(lambda: first.balancer.is_leading, what="a leader")
        await first.foundation.lasting.create(paths.PAUSE, b'{"version": 1}', make_parents=True)
        epoch = first.election.leadership
        async with running(cluster, tmp_path, ACT) as (second, _):
            store = second.foundation.store
            await eventually(lambda: getattr(store, "waiting_for", ""), what="another holds it")
            assert not second.balancer.is_leading
            stop.ask()
            await eventually(lambda: second.balancer.is_leading, what="the successor leads")
            assert await second.foundation.store.exists(paths.PAUSE) is not None
            successor = second.election.leadership
            assert epoch is not None
            assert successor is not None
            assert successor.epoch > epoch.epoch
    assert cluster.asked == []
    kept = json.loads((tmp_path / "state.json").read_bytes())
    assert paths.PAUSE in {node["path"] for node in kept["nodes"]}
    assert not any(node["path"].startswith(paths.LEASES) for node in kept["nodes"])


async def test_nothing_is_moved_by_an_old_look_at_the_cluster(
    cluster: ForeignCluster, tmp_path: Path
) -> None:
    cluster.is_silent = False
    async with running(cluster, tmp_path, ACT, "pulsarRequestTimeoutMillis=500") as (attached, _):
        await eventually(lambda: counts(cluster) == [4, 4, 4], what="four bundles each")
        cluster.is_silent = True
        await eventually(lambda: attached.source.outdated, what="it is known to be old")
        why = await attached.cluster_balancer.blocked_reason()
        assert "could not be read for more than 1.5 s" in why
        cluster.is_silent = False

        async def is_read_again() -> bool:
            return await attached.source.check() is None

        await eventually(is_read_again, what="it is read again")
        assert await attached.cluster_balancer.blocked_reason() == ""


async def test_acting_without_a_place_for_the_state_is_refused(cluster: ForeignCluster) -> None:
    settings = attached_settings(cluster)
    given = [f"{key}={settings.text(key)}" for key in ("dataPlane", "pulsarAdminUrl")]
    reading = read(None, {}, [*given, "clusterName=c", "pulsarStateUrl=memory:", ACT])
    assert any("could act against each other" in str(one) for one in start_problems(reading))
    watching = read(None, {}, [*given, "clusterName=c", "pulsarStateUrl=memory:"])
    assert start_problems(watching) == ()


@pytest.mark.parametrize(
    "url", ["file:relative", "kubernetes:A", "memory:x", "etcd:h", "kubernetes:"]
)
def test_a_place_that_cannot_be_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="pulsarStateUrl"):
        read(None, {}, ["dataPlane=pulsar", f"pulsarStateUrl={url}"]).valid_settings()
