"""A broker process that answers no call, and may serve on: what its daemon gives up, and when."""

import pytest

from broker_ctl.errors import DataPlaneUnreachable
from broker_ctl.store import paths
from tests.deterministic.scenarios.replicated_scene import Scene
from tests.deterministic.scenarios.serving import serve_all
from tests.deterministic.world.daemon_process import TIMEOUT_S

# Until it counts as silent, and until its last authority is over.
_RELEASED_S = 3.0 + TIMEOUT_S + 10.0


def test_a_daemon_is_registered_until_all_bundles_of_a_silent_process_are_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(scene: Scene) -> None:
        daemon, cluster = await serve_all(scene), scene.cluster

        async def fall_silent() -> None:
            raise DataPlaneUnreachable("it does not answer")

        tree, path = cluster.ensemble.tree, paths.registration(daemon.broker_id)
        session_ids = set(cluster.ensemble.session_ids)
        monkeypatch.setattr(daemon.link, "loaded", fall_silent)
        assert await cluster.until(lambda: tree.find(path) is None, _RELEASED_S)
        # Other brokers see releases, not an expiry, and need not wait for the grace.
        assert cluster.observer.standing == {}
        assert session_ids <= set(cluster.ensemble.session_ids)
        assert daemon.is_running

    Scene().play(story)


def test_a_silent_process_is_left_its_bundles_until_its_last_authority_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(scene: Scene) -> None:
        daemon, cluster = await serve_all(scene), scene.cluster
        standing = dict(cluster.observer.standing)

        async def fall_silent() -> None:
            raise DataPlaneUnreachable("it does not answer")

        monkeypatch.setattr(daemon.link, "loaded", fall_silent)
        assert daemon.assembly is not None
        ownership, clock = daemon.assembly.services.ownership, daemon.clock
        last_s = 0.0

        def is_given_up() -> bool:
            nonlocal last_s
            last_s = max(last_s, ownership.granted.deadline_s)
            return ownership.granted.deadline_s == 0.0

        assert await cluster.until(is_given_up, _RELEASED_S)
        assert cluster.observer.standing == standing
        assert await cluster.until(lambda: not cluster.observer.standing, _RELEASED_S)
        assert clock.now_s() >= last_s

    Scene().play(story)
