"""Serving on without ZooKeeper (docs: failsafe): all servers away, one broker cut off, a dead one.

Complete daemons and their broker processes in virtual time; the observer judges every act.
"""

import asyncio
from collections.abc import Iterator
from itertools import pairwise

from broker_ctl.core.failsafe.promises import PROMISE_S
from broker_ctl.store import paths
from tests.deterministic.clients.clients import Clients
from tests.deterministic.scenarios.replicated_scene import Scene
from tests.deterministic.world.daemon_process import TICK_S, TIMEOUT_S, DaemonProcess
from tests.deterministic.world.topics import topics

# One in which daemons serve on by promises.
SEED = 1
AWAY_S = 120.0
# Between two acts of a broker process for one topic lies a quarter of a second.
GAP_S = 1.0
START_S = 40.0
TRIES = 200


async def serve_everywhere(scene: Scene) -> None:
    """Each topic is served, and each broker owns something."""
    clients, cluster = Clients(scene.cluster), scene.cluster
    assert await cluster.until(lambda: len(cluster.running) == len(cluster.daemons), START_S)
    await clients.create_namespace()
    for _ in range(TRIES):
        await clients.look_up_all()
        if all(topic.ring_hash in cluster.observer.served_s for topic in topics()):
            break
    # Until the last act of a move is over.
    assert await cluster.until(lambda: len(set(owners(scene))) > 1, START_S)
    await asyncio.sleep(2 * TIMEOUT_S)


def owners(scene: Scene) -> list[str]:
    return [reign.broker_id for reign in scene.cluster.observer.standing.values()]


def hashes_of(scene: Scene, daemon: DaemonProcess) -> list[int]:
    return [
        topic.ring_hash
        for topic in topics()
        for reign in scene.cluster.observer.standing.values()
        if reign.broker_id == daemon.broker_id and topic.ring_hash in reign.bundle.range
    ]


def longest_gaps(scene: Scene, since_s: float) -> Iterator[float]:
    """For each topic, the longest time without an act."""
    now_s = scene.cluster.turns.now_s
    for topic in topics():
        acts = scene.cluster.observer.acted.get(topic.ring_hash, ())
        times = [since_s, *(at_s for at_s, _, _ in acts if at_s >= since_s), now_s]
        yield max(late - early for early, late in pairwise(times))


def test_nothing_is_unserved_and_nothing_is_written_while_all_servers_are_away() -> None:
    async def story(scene: Scene) -> None:
        await serve_everywhere(scene)
        cluster = scene.cluster
        tokens = {bundle: reign.token for bundle, reign in cluster.observer.standing.items()}
        began_s, zxid = cluster.turns.now_s, cluster.ensemble.tree.zxid
        cluster.ensemble.change_leader(AWAY_S)
        await asyncio.sleep(AWAY_S - 1.0)
        assert cluster.ensemble.tree.zxid == zxid
        for daemon in cluster.running:
            assert daemon.dependencies is not None
            assert daemon.dependencies.readiness().is_ready
        clients = Clients(cluster)
        for daemon in cluster.daemons:
            mine = hashes_of(scene, daemon)
            for topic in topics():
                if topic.ring_hash in mine:
                    await clients.look_up(topic, daemon)
        await asyncio.sleep(30.0)
        assert max(longest_gaps(scene, began_s)) < GAP_S
        # The same sessions, the same owners.
        standing = cluster.observer.standing
        assert {bundle: reign.token for bundle, reign in standing.items()} == tokens

    Scene(SEED).play(story)


def test_a_broker_that_alone_is_cut_off_stops_and_the_others_take_over() -> None:
    async def story(scene: Scene) -> None:
        await serve_everywhere(scene)
        cluster = scene.cluster
        alone = max(cluster.daemons, key=lambda daemon: len(hashes_of(scene, daemon)))
        mine, began_s = hashes_of(scene, alone), cluster.turns.now_s
        assert mine
        assert alone.store is not None
        alone.loop.call_soon(alone.store.disconnect)
        await asyncio.sleep(TIMEOUT_S + TICK_S)
        clients = Clients(cluster)
        for _ in range(TRIES):
            await clients.look_up_all()
            if all(acts_by_others(scene, alone, one, began_s) for one in mine):
                break
        assert all(acts_by_others(scene, alone, one, began_s) for one in mine)
        late = [
            at_s
            for one in mine
            for at_s, broker, _ in cluster.observer.acted[one]
            if broker == alone.broker_id and at_s > began_s + TIMEOUT_S
        ]
        assert late == []

    Scene(SEED).play(story)


def acts_by_others(scene: Scene, alone: DaemonProcess, position: int, since_s: float) -> bool:
    acts = scene.cluster.observer.acted[position]
    return any(at_s > since_s and broker != alone.broker_id for at_s, broker, _ in acts)


def test_without_the_promise_of_one_member_nothing_outlasts_the_lease() -> None:
    async def story(scene: Scene) -> None:
        await serve_everywhere(scene)
        cluster = scene.cluster
        dead = cluster.daemons[0]
        dead.kill()
        began_s = cluster.turns.now_s
        cluster.ensemble.change_leader(AWAY_S)
        await asyncio.sleep(AWAY_S - 1.0)
        late = [
            at_s
            for acts in cluster.observer.acted.values()
            for at_s, _, _ in acts
            if at_s > began_s + TIMEOUT_S
        ]
        assert late == []
        assert not any(
            daemon.dependencies is not None and daemon.dependencies.readiness().is_ready
            for daemon in cluster.running
        )

    Scene(SEED).play(story)


def test_a_member_that_stays_away_is_removed_so_that_a_new_broker_may_acquire() -> None:
    async def story(scene: Scene) -> None:
        await serve_everywhere(scene)
        cluster = scene.cluster
        dead, *living = cluster.daemons
        dead.kill()
        assert await cluster.until(lambda: dead.broker_id not in members(scene), START_S)
        assert {one.broker_id for one in living} == members(scene)
        began_s = cluster.turns.now_s
        dead.start()
        assert await cluster.until(lambda: is_ready(dead), START_S)
        # Those that have known it for the length of a promise do not need longer.
        assert cluster.turns.now_s - began_s >= PROMISE_S

    Scene(SEED).play(story)


def members(scene: Scene) -> set[str]:
    node = scene.cluster.ensemble.tree.find(paths.FAILSAFE_MEMBERS)
    return {name for name in scene.cluster.by_id if node is not None and name.encode() in node.data}


def is_ready(daemon: DaemonProcess) -> bool:
    return daemon.dependencies is not None and daemon.dependencies.readiness().is_ready
