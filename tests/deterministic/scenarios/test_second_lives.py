"""A broker that is started elsewhere, by its name and address, while its former life still runs."""

import asyncio

from tests.deterministic.clients.clients import Clients
from tests.deterministic.faults.second_lives import is_refusal
from tests.deterministic.scenarios.replicated_scene import Scene
from tests.deterministic.scenarios.serving import serve_all
from tests.deterministic.world.daemon_process import TICK_S, TIMEOUT_S, DaemonProcess
from tests.deterministic.world.topics import topics

_PATIENCE_S = 60.0
_TRIES = 100


async def _begin_elsewhere(scene: Scene) -> tuple[DaemonProcess, DaemonProcess]:
    former = await serve_all(scene)
    daemon = scene.cluster.begin_elsewhere(former)
    scene.cluster.by_id[daemon.broker_id] = daemon
    await daemon.process.start()
    daemon.start()
    return former, daemon


def test_a_broker_that_serves_is_not_replaced_by_another_of_its_name() -> None:
    async def story(scene: Scene) -> None:
        former, daemon = await _begin_elsewhere(scene)
        cluster, observer = scene.cluster, scene.cluster.observer
        standing = dict(observer.standing)
        assert await cluster.until(lambda: not daemon.is_running, _PATIENCE_S)
        assert is_refusal(daemon.exits)
        assert observer.standing == standing
        assert former.is_running
        # It serves on.
        now_s = cluster.turns.now_s
        await cluster.until(lambda: min(observer.served_s.values()) > now_s, _PATIENCE_S)
        assert former.owned() == sorted(standing)

    Scene().play(story)


def test_a_life_that_is_cut_off_is_outlived_and_does_not_come_back() -> None:
    async def story(scene: Scene) -> None:
        former, daemon = await _begin_elsewhere(scene)
        cluster, observer = scene.cluster, scene.cluster.observer
        standing = dict(observer.standing)
        assert former.store is not None
        former.loop.call_soon(former.store.disconnect)
        assert await cluster.until(lambda: not observer.standing, TIMEOUT_S + 2 * TICK_S)
        clients = Clients(cluster)
        for _ in range(_TRIES):
            for topic in topics():
                await clients.ask("lookup", clients.look_up(topic, daemon))
            if len(observer.standing) == len(standing):
                break
            await asyncio.sleep(0.2)
        taken = dict(observer.standing)
        assert taken.keys() == standing.keys()
        # Its name has another session now, and so has whatever it was.
        former.loop.call_soon(former.store.reconnect)
        assert await cluster.until(lambda: not former.is_running, _PATIENCE_S)
        assert is_refusal(former.exits)
        assert observer.standing == taken
        assert sorted(taken) == daemon.owned()

    Scene().play(story)
