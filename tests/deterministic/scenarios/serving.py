"""A daemon that serves everything, for stories to begin with."""

import asyncio

from tests.deterministic.clients.clients import Clients
from tests.deterministic.scenarios.replicated_scene import Scene
from tests.deterministic.world.daemon_process import DaemonProcess
from tests.deterministic.world.topics import topics

_STOP_S = 40.0
_TRIES = 100


async def serve_all(scene: Scene) -> DaemonProcess:
    """One daemon runs, and owns all that there is."""
    one, *others = scene.cluster.daemons
    for other in others:
        other.kill()
    clients = Clients(scene.cluster)
    assert await scene.cluster.until(lambda: scene.cluster.running == [one], _STOP_S)
    await clients.create_namespace()
    observer = scene.cluster.observer
    for _ in range(_TRIES):
        for topic in topics():
            await clients.ask("lookup", clients.look_up(topic, one))
        if all(topic.ring_hash in observer.served_s for topic in topics()):
            break
        await asyncio.sleep(0.2)
    assert len(observer.standing) > 1
    return one
