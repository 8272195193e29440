"""Two leaders in transition (docs: kafka-design-v3): a deposed leader commits nothing any more.

Complete daemons and their broker processes in virtual time; what each story leaves behind is judged
by the store's history and by all logs.
"""

import pytest

from broker_ctl.errors import DataPlaneError, DataPlaneRefused
from broker_ctl.lab.memory_store.transport import Fault, FaultPoint
from broker_ctl.store import paths
from tests.deterministic.scenarios.replicated_scene import PARTITION, Scene


def test_a_leader_that_was_paused_is_refused_when_it_wakes_and_nothing_is_lost() -> None:
    async def story(scene: Scene) -> None:
        await scene.create(0, 1, 2)
        await scene.commit(0, b"1")
        scene.stop(0)
        # It lies before the stopped process, which will read it first of all.
        late = scene.start(scene.produce(0, b"late"))
        await scene.wait_led(1, 1, 2)
        await scene.commit(1, b"2")
        scene.go_on(0)
        with pytest.raises(DataPlaneRefused):
            await late
        await scene.wait_led(1, 0, 1, 2)
        assert await scene.values() == {broker: [b"1", b"2"] for broker in range(3)}

    Scene().play(story)


def test_a_leader_alone_in_its_isr_is_refused_after_an_unclean_election() -> None:
    async def story(scene: Scene) -> None:
        await scene.create(0, 1, min_isr=1, is_unclean=True)
        await scene.commit(0, b"1")
        await scene.kill(1)
        await scene.wait_led(0, 0)
        await scene.commit(0, b"of A alone")
        scene.stop(0)
        late = scene.start(scene.produce(0, b"late"))
        await scene.start_again(1)
        await scene.wait_led(1, 1)
        assert scene.state.is_recovering
        await scene.commit(1, b"of B")
        scene.go_on(0)
        # It could commit alone, without asking anybody: only its authority stands in the way.
        with pytest.raises(DataPlaneRefused):
            await late
        await scene.wait_led(1, 0, 1)
        assert not scene.state.is_recovering
        assert await scene.values() == {broker: [b"1", b"of B"] for broker in range(2)}
        assert scene.cluster.observer.partitions.unclean == 1

    Scene().play(story, is_lossy=True)


@pytest.mark.parametrize("point", list(FaultPoint))
def test_an_expansion_in_flight_that_the_controller_overtakes_loses_nothing(
    point: FaultPoint,
) -> None:
    """Written or not, the leader does not know: it counts the larger ISR until it hears."""

    async def story(scene: Scene) -> None:
        await scene.create(0, 1, 2)
        leader = scene.cluster.daemons[0]
        network, path = scene.cluster.network, paths.leader_and_isr(PARTITION)
        network.cut("b0", "b2")
        await scene.commit(0, b"1")
        await scene.wait_led(0, 0, 1)
        in_flight: list[bool] = []

        def stop_daemon() -> None:
            in_flight.append(True)
            leader.loop.stop_process()

        # Its broker process goes on, as long as its authority lasts.
        leader.wire.trap(path, point, stop_daemon, Fault.CUT)
        network.heal("b0", "b2")
        await scene.until(lambda: bool(in_flight), "the expansion is in flight")
        network.cut("b0", "b2")
        late = scene.start(scene.produce(0, b"2"))
        await scene.until(lambda: scene.state.leader in {1, 2}, "another one leads")
        assert {*scene.state.isr} == ({1} if point is FaultPoint.BEFORE else {1, 2})
        network.heal_all()
        leader.loop.continue_process()
        # Not all that are in sync by the store have the record: it is not acknowledged.
        with pytest.raises(DataPlaneError):
            await late
        await scene.wait_led(scene.state.leader, 0, 1, 2)
        await scene.commit(scene.state.leader, b"3")

    Scene().play(story)
