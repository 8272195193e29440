"""A loop that is busy keeps what it owns; of a loop that has died everything is free in time."""

import asyncio

from tests.deterministic.faults.busy_loops import EXPIRY_S
from tests.deterministic.scenarios.replicated_scene import Scene
from tests.deterministic.scenarios.serving import serve_all
from tests.deterministic.world.daemon_process import TIMEOUT_S, WATCHDOG_S

_BUSY_S = WATCHDOG_S - 0.1
_SETTLED_S = 10.0


def test_a_loop_that_is_busy_for_longer_than_its_session_keeps_all_that_it_owns() -> None:
    async def story(scene: Scene) -> None:
        daemon, observer = await serve_all(scene), scene.cluster.observer
        assert daemon.store is not None
        session_id = daemon.store.session_id
        owned = {bundle: reign.token for bundle, reign in observer.standing.items()}
        assert TIMEOUT_S < _BUSY_S
        daemon.loop.block()
        await asyncio.sleep(_BUSY_S)
        daemon.loop.continue_process()

        def serves_again() -> bool:
            loaded = {entry.bundle: entry.token for entry in daemon.process.serving._table}
            return loaded == owned

        assert await scene.cluster.until(serves_again, _SETTLED_S)
        assert daemon.store.session_id == session_id
        # The same nodes: nothing was given up, not for a moment.
        assert {bundle: reign.token for bundle, reign in observer.standing.items()} == owned

    Scene().play(story)


def test_a_loop_that_has_died_owns_nothing_after_the_watchdog_and_one_session() -> None:
    async def story(scene: Scene) -> None:
        daemon, observer = await serve_all(scene), scene.cluster.observer
        assert daemon.store is not None
        session_id = daemon.store.session_id
        daemon.loop.block()
        await asyncio.sleep(WATCHDOG_S)
        assert observer.standing
        await asyncio.sleep(EXPIRY_S)
        assert session_id not in scene.cluster.ensemble.session_ids
        assert observer.standing == {}
        daemon.loop.continue_process()

    Scene().play(story)
