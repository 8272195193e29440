"""A loop that is busy keeps what it owns; of a loop that has died everything is free in time."""

import asyncio

from broker_ctl.core.machines.session import SessionAction
from tests.deterministic.faults.busy_loops import EXPIRY_S
from tests.deterministic.scenarios.replicated_scene import Scene
from tests.deterministic.scenarios.serving import serve_all
from tests.deterministic.world.daemon_process import TIMEOUT_S, WATCHDOG_S

_BUSY_S = WATCHDOG_S - 0.1
_SETTLED_S = 10.0
_CUT_S = 0.3
# No heartbeat before the cut proves so much, and the session still lives.
_LEASE_OVER_S = TIMEOUT_S - 0.2


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


def test_a_loop_that_is_busy_for_longer_than_its_lease_has_authority_when_it_runs_again() -> None:
    async def story(scene: Scene) -> None:
        actions = await block_one(scene)
        assert actions == []

    Scene().play(story)


def test_a_server_without_its_leader_proves_nothing_to_a_busy_loop() -> None:
    async def story(scene: Scene) -> None:
        actions = await block_one(scene, is_cut_off=True)
        # It was linked again before the session expired, and after the lease had.
        assert actions[:2] == [SessionAction.FENCE, SessionAction.SESSION_LOST]
        assert SessionAction.END not in actions

    Scene().play(story)


async def block_one(scene: Scene, *, is_cut_off: bool = False) -> list[SessionAction]:
    """What the watcher of a daemon does whose loop was busy; ``is_cut_off``: at its end, too."""
    daemon, ensemble = await serve_all(scene), scene.cluster.ensemble
    assert daemon.assembly is not None
    assert daemon.store is not None
    watcher, actions = daemon.assembly.foundation.watcher, list[SessionAction]()
    watcher.listen(actions.append)
    session = ensemble._sessions[daemon.store.session_id]
    assert session.client is not None
    server = session.client.server
    if server is ensemble.leader:
        # Only followers can be cut off.
        ensemble.leader = next(one for one in ensemble.servers if one is not server)
    deadline_s = watcher.deadline_s
    daemon.loop.block()
    if is_cut_off:
        await asyncio.sleep(_CUT_S)
        ensemble.cut_off(server)
        await asyncio.sleep(_LEASE_OVER_S - _CUT_S)
        ensemble.link(server)
    else:
        await asyncio.sleep(_BUSY_S)
    assert scene.cluster.turns.now_s >= deadline_s
    daemon.loop.continue_process()

    def has_authority() -> bool:
        return watcher.deadline_s > scene.cluster.turns.now_s

    assert await scene.cluster.until(has_authority, _SETTLED_S)
    await asyncio.sleep(_SETTLED_S / 10)
    assert has_authority()
    return actions


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
