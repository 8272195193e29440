"""An operator deletes a persistent node of a running cluster, and no sentence breaks by it."""

import asyncio

import pytest

from broker_ctl.errors import BrokerCtlError
from broker_ctl.store import paths
from broker_ctl.store.interface import Delete, SetData
from broker_ctl.store.records.policies import PoliciesRecord
from tests.deterministic.clients.clients import Clients
from tests.deterministic.scenarios.replicated_scene import Scene
from tests.deterministic.scenarios.serving import serve_all
from tests.deterministic.world.daemon_process import DaemonProcess
from tests.deterministic.world.topics import NAMESPACE, topics

_PATIENCE_S = 40.0
_LOOK_S = 0.5


async def _all_run(scene: Scene) -> None:
    cluster = scene.cluster
    for daemon in cluster.daemons:
        if not daemon.is_running:
            daemon.start()

    def is_ready() -> bool:
        parts = [one.dependencies for one in cluster.daemons]
        return all(part is not None and part.readiness().is_ready for part in parts)

    assert await cluster.until(is_ready, _PATIENCE_S)


def test_a_ring_that_is_made_again_has_the_bundles_that_are_owned() -> None:
    """The copy of the boundaries in the policies may be older than the last split."""

    async def story(scene: Scene) -> None:
        owner, cluster = await serve_all(scene), scene.cluster
        await _all_run(scene)
        tree, path = cluster.ensemble.tree, paths.policies(NAMESPACE)
        before = tree.find(path)
        assert before is not None
        assert owner.dependencies is not None
        split = owner.dependencies.services.ownership.split
        parent = owner.owned()[0]
        within = range(parent.range.low, parent.range.high)
        await owner.call(split(parent, "range_equally_divide"))
        # As where the split could not be copied there.
        assert await cluster.until(lambda: tree.find(path) != before, _PATIENCE_S)
        cluster.ensemble.write_as_admin([SetData(path, before.data)])
        boundaries = PoliciesRecord.decode(path, before.data).boundaries or ()
        assert [point for point in boundaries if point in within] == [parent.range.low]
        cluster.ensemble.write_as_admin([Delete(paths.local_policies(NAMESPACE))])
        clients = Clients(cluster)
        other = next(one for one in cluster.daemons if one is not owner)
        # It may have known the owners: then the ring is not what it asks for first.
        for topic in topics() * 2:
            assert other.dependencies is not None
            find = other.dependencies.lookup.find(topic, authoritative=True)
            await clients.ask("lookup", other.call(find))
            await asyncio.sleep(_LOOK_S)
        ring = tree.find(paths.local_policies(NAMESPACE))
        assert ring is not None
        children = [one for one in cluster.observer.standing if one.range.low in within]
        assert len(children) == 2
        assert parent not in cluster.observer.standing

    Scene().play(story)


def _leader(scene: Scene) -> DaemonProcess | None:
    for daemon in scene.cluster.running:
        if daemon.dependencies is not None and daemon.dependencies.admin() is not None:
            return daemon
    return None


async def _move_some(scene: Scene) -> bool:
    """Whether an order of the leader to another broker is carried out."""
    cluster, leader = scene.cluster, _leader(scene)
    standing = cluster.observer.standing
    if leader is None or leader.dependencies is None:
        return False
    admin = leader.dependencies.admin()
    bundle = min(standing)
    (to, *_) = [
        one.broker_id for one in cluster.daemons if one.broker_id != standing[bundle].broker_id
    ]
    assert admin is not None
    try:
        await leader.call(admin.move(bundle, to))
    except BrokerCtlError:
        return False

    def is_moved() -> bool:
        reign = standing.get(bundle)
        return reign is not None and reign.broker_id == to

    return await cluster.until(is_moved, _LOOK_S)


@pytest.mark.parametrize("elections", [1, 4])
def test_the_next_leader_is_obeyed_after_the_epoch_was_deleted(elections: int) -> None:
    """Also by brokers that have seen higher epochs than the one that begins again."""

    async def story(scene: Scene) -> None:
        cluster = scene.cluster
        await serve_all(scene)
        for _ in range(elections):
            await _all_run(scene)
            assert await cluster.until(lambda: _leader(scene) is not None, _PATIENCE_S)
            assert await _patiently_moved(scene)
            leader = _leader(scene)
            assert leader is not None
            leader.kill()
        await _all_run(scene)
        assert await cluster.until(lambda: _leader(scene) is not None, _PATIENCE_S)
        cluster.ensemble.write_as_admin([Delete(paths.LOADBALANCE_ELECTION.epoch_path)])
        assert await _patiently_moved(scene)

    Scene().play(story)


async def _patiently_moved(scene: Scene) -> bool:
    end_s = scene.cluster.turns.now_s + _PATIENCE_S
    while scene.cluster.turns.now_s < end_s:
        if await _move_some(scene):
            return True
        await asyncio.sleep(_LOOK_S)
    return False
