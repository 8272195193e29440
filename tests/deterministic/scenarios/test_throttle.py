"""A throttled reassignment over complete daemons, from the controller to the logs."""

from tests.deterministic.scenarios.replicated_scene import PARTITION, Scene

_RECORDS = 10
_SIZE = 10_000
_RATE = 10_000


def rates(scene: Scene) -> set[int | None]:
    """What the daemons have their broker processes apply."""
    found: set[int | None] = set()
    for daemon in scene.cluster.running:
        assert daemon.assembly is not None
        assert daemon.assembly.partitions is not None
        found.add(daemon.assembly.partitions.replicas.throttle.rate)
    return found


def test_an_added_replica_catches_up_no_faster_than_the_throttle() -> None:
    async def story(scene: Scene) -> None:
        await scene.until(lambda: len(scene.controllers()) == 1, "one controls")
        await scene.create(0, 1)
        for number in range(_RECORDS):
            await scene.commit(0, b"%d" % number * _SIZE)
        (controller,) = scene.controllers()
        assert controller.assembly is not None
        assert controller.assembly.partitions is not None
        admin = controller.assembly.partitions.controller.admin
        assert admin is not None
        began_s = scene.cluster.turns.now_s
        await controller.call(admin.reassign({PARTITION: (0, 2)}, _RATE, is_dry_run=False))
        await scene.until(lambda: rates(scene) == {_RATE}, "all daemons know the throttle")
        await scene.wait_led(0, 0, 2)
        # The first grant and the last record may come at once.
        assert scene.cluster.turns.now_s - began_s >= (_RECORDS - 2) * _SIZE / _RATE
        await scene.until(lambda: rates(scene) == {None}, "the throttle is gone")

    Scene().play(story)
