"""A daemon that stops closes its session only where its broker process has confirmed everything."""

import pytest

from broker_ctl.errors import DataPlaneUnreachable
from broker_ctl.store import paths
from tests.deterministic.scenarios.replicated_scene import Scene
from tests.deterministic.scenarios.serving import serve_all
from tests.deterministic.world.daemon_process import TICK_S, TIMEOUT_S, DaemonProcess

_STOP_S = 40.0


async def stopped(scene: Scene, daemon: DaemonProcess) -> int:
    """Its session, once it has ended as by SIGTERM."""
    assert daemon.store is not None
    session_id = daemon.store.session_id
    assert session_id in scene.cluster.ensemble.session_ids
    daemon.stop()
    assert await scene.cluster.until(lambda: not daemon.is_running, _STOP_S)
    return session_id


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_session_is_left_to_expire_while_a_bundle_may_still_be_served(
    monkeypatch: pytest.MonkeyPatch, is_kept: bool
) -> None:
    async def story(scene: Scene) -> None:
        daemon, ensemble = await serve_all(scene), scene.cluster.ensemble
        kept = min(daemon.owned())

        async def keep_open(*_: object) -> None:
            raise DataPlaneUnreachable("it is kept open")

        if is_kept:
            unload = daemon.link.unload
            monkeypatch.setattr(
                daemon.link, "unload", lambda b, s: keep_open() if b == kept else unload(b, s)
            )
            monkeypatch.setattr(daemon.link, "fence", keep_open)
        session_id = await stopped(scene, daemon)
        assert (session_id in ensemble.session_ids) is is_kept
        assert list(scene.cluster.observer.standing) == ([kept] if is_kept else [])
        # The process has its last authority until the lease is over, and the node stands longer.
        assert await scene.cluster.until(
            lambda: session_id not in ensemble.session_ids, TIMEOUT_S + 2 * TICK_S
        )
        assert scene.cluster.observer.standing == {}

    Scene().play(story)


def test_a_daemon_that_stops_is_registered_until_its_bundles_are_released() -> None:
    async def story(scene: Scene) -> None:
        daemon, cluster = await serve_all(scene), scene.cluster
        path = paths.registration(daemon.broker_id)
        assert cluster.ensemble.tree.find(path) is not None
        daemon.stop()
        assert await cluster.until(lambda: cluster.ensemble.tree.find(path) is None, _STOP_S)
        # Other brokers see releases, not an expiry, and need not wait for the grace.
        assert cluster.observer.standing == {}

    Scene().play(story)
