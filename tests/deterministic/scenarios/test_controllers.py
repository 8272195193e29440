"""Controllers and brokers that come and go, as it really happened (docs: kafka-failure-kinds).

Complete daemons in virtual time. Whatever a deposed controller writes is a violation by itself.
"""

import asyncio

import pytest

from broker_ctl.lab.memory_store.transport import Fault, FaultPoint
from broker_ctl.store import paths
from broker_ctl.store.interface import Delete
from tests.deterministic.scenarios.replicated_scene import PARTITION, Scene
from tests.deterministic.world.daemon_process import DaemonProcess

CONTROLLER_NODE = paths.CONTROLLER_ELECTION.node_path


async def controller(scene: Scene) -> DaemonProcess:
    """The one daemon that controls."""
    await scene.until(lambda: len(scene.controllers()) == 1, "one controls")
    return scene.controllers()[0]


def holder(scene: Scene) -> tuple[int, int]:
    """The held's czxid and session; nothing where it is free."""
    node = scene.cluster.ensemble.tree.find(CONTROLLER_NODE)
    return (0, 0) if node is None else (node.stat.czxid, node.stat.ephemeral_owner)


def test_bug_1_a_controller_paused_in_the_middle_of_an_election_changes_nothing_when_it_wakes() -> (
    None
):
    async def story(scene: Scene) -> None:
        old = await controller(scene)
        others = [one.number for one in scene.cluster.daemons if one is not old]
        leader = others.pop()
        await scene.create(leader, *others, old.number)
        path = paths.leader_and_isr(PARTITION)
        is_asleep: list[bool] = []

        def sleep() -> None:
            is_asleep.append(True)
            old.loop.stop_process()

        # The request is lost with its connection: to the controller it is still to be written.
        old.wire.trap(path, FaultPoint.BEFORE, sleep, Fault.CUT)
        await scene.kill(leader)
        await scene.until(lambda: bool(is_asleep), "the controller elects")
        await scene.until(lambda: scene.state.leader != leader, "another controller has elected")
        held, epoch = holder(scene), scene.cluster.observer.partitions.epoch
        old.loop.continue_process()
        await scene.start_again(leader)
        await scene.wait_led(scene.state.leader, 0, 1, 2)
        assert holder(scene) == held
        assert scene.cluster.observer.partitions.epoch == epoch
        assert await controller(scene) is not old

    Scene().play(story)


@pytest.mark.parametrize("point", list(FaultPoint))
def test_bug_2_a_controller_whose_election_is_not_answered_finds_out_and_acts(
    point: FaultPoint,
) -> None:
    async def story(scene: Scene) -> None:
        for daemon in scene.cluster.daemons:
            daemon.wire.trap(CONTROLLER_NODE, point, lambda: None, Fault.CUT)
        await scene.create(0, 1, 2)
        winner = await controller(scene)
        assert winner.store is not None
        # The holder of the node acts: it is not left to a broker that thinks that it lost.
        assert holder(scene)[1] == winner.store.session_id

    Scene().play(story)


@pytest.mark.parametrize("point", list(FaultPoint))
def test_bug_3_servers_that_elect_meanwhile_leave_one_controller_which_acts(
    point: FaultPoint,
) -> None:
    async def story(scene: Scene) -> None:
        ensemble = scene.cluster.ensemble
        for daemon in scene.cluster.daemons:
            daemon.wire.trap(CONTROLLER_NODE, point, lambda: ensemble.change_leader(1.0), Fault.CUT)
        await scene.create(0, 1, 2)
        winner = await controller(scene)
        assert winner.store is not None
        assert holder(scene)[1] == winner.store.session_id

    Scene().play(story)


def test_bug_4_a_broker_that_is_back_before_the_controller_looks_gets_all_instructions() -> None:
    async def story(scene: Scene) -> None:
        await scene.create(0, 1, 2)
        controls = await controller(scene)
        bounced = next(daemon for daemon in scene.cluster.daemons if daemon is not controls)
        tree = scene.cluster.ensemble.tree

        def epoch() -> int:
            node = tree.find(paths.broker(bounced.number))
            return 0 if node is None else node.stat.czxid

        first = epoch()
        controls.loop.stop_process()
        assert bounced.store is not None
        scene.cluster.ensemble.expire(bounced.store.session_id)
        await scene.until(lambda: epoch() > first, "it is registered again")
        controls.loop.continue_process()
        await asyncio.sleep(1.0)
        await scene.wait_led(scene.state.leader, 0, 1, 2)
        # Its replica follows, or leads, in this life: without it nothing would be committed.
        await scene.commit(scene.state.leader, b"1")

    Scene().play(story)


def test_bug_5_the_node_of_an_earlier_life_is_waited_for_and_never_there_twice() -> None:
    async def story(scene: Scene) -> None:
        await scene.create(0, 1, 2)
        controls = await controller(scene)
        killed = next(daemon for daemon in scene.cluster.daemons if daemon is not controls)
        tree, path = scene.cluster.ensemble.tree, paths.broker(killed.number)
        old = tree.find(path)
        assert old is not None
        await scene.kill(killed.number)
        await scene.start_again(killed.number)

        def is_back() -> bool:
            node = tree.find(path)
            return node is not None and node.stat.czxid > old.stat.czxid

        await scene.until(is_back, "it is registered again")
        node = tree.find(path)
        assert node is not None
        assert killed.store is not None
        assert node.stat.ephemeral_owner == killed.store.session_id != old.stat.ephemeral_owner
        await scene.wait_led(scene.state.leader, 0, 1, 2)

    Scene().play(story)


def test_an_election_that_a_deposed_controller_did_not_announce_is_announced_by_the_next() -> None:
    async def story(scene: Scene) -> None:
        old = await controller(scene)
        first, second = (one.number for one in scene.cluster.daemons if one is not old)
        await scene.create(first, second, old.number)
        is_asleep: list[bool] = []

        def sleep() -> None:
            is_asleep.append(True)
            old.loop.stop_process()

        # The state is written, and no broker has heard of it.
        old.wire.trap(paths.leader_and_isr(PARTITION), FaultPoint.AFTER, sleep)
        await scene.kill(first)
        await scene.until(lambda: bool(is_asleep), "the controller elects")
        assert scene.state.leader == second
        scene.cluster.ensemble.write_as_admin([Delete(CONTROLLER_NODE)])
        leader, epoch = scene.cluster.daemons[second], scene.cluster.observer.partitions.epoch

        def has_heard() -> bool:
            assert leader.assembly is not None
            assert leader.assembly.partitions is not None
            return leader.assembly.partitions.replicas.newest_controller_epoch > epoch

        await scene.until(has_heard, "the next controller has instructed the elected leader")
        old.loop.continue_process()
        # The next one had nothing to elect, and what the leader had was of the time before.
        await scene.commit(second, b"1")
        await scene.start_again(first)
        await scene.wait_led(scene.state.leader, 0, 1, 2)

    Scene().play(story)
