"""How long a broker process may act, as the daemon answers it (I1a, I11)."""

import asyncio

from broker_ctl.api.http.dependencies import Readiness
from broker_ctl.coordination.session import Grant
from broker_ctl.core.machines.session import SessionState
from broker_ctl.daemon.wiring.services import DaemonStatus
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.tasks import TaskFaults
from tests.daemon.wiring.test_ownership_settings import built, settings_with
from tests.support.clusters.brokers import MemoryBroker, cluster
from tests.support.time.waiting import eventually


def status_of(broker: MemoryBroker) -> DaemonStatus:
    return DaemonStatus(
        broker.watcher, broker.clock, TaskFaults(), lambda: broker.ownership.granted
    )


@in_virtual_time
async def test_a_new_session_gives_no_authority_before_its_bundles_are_re_acquired() -> None:
    async with cluster() as made:
        (broker,) = made.brokers
        status = status_of(broker)
        await broker.ownership.acquire(made.bundles[0])
        assert status.authority()[1] > 0
        answer = broker.steering.hold("renew")
        broker.expire()
        await eventually(lambda: broker.watcher.epoch == 2)
        await broker.watcher.wait_authority()
        assert status.authority() == (2, 0)
        answer.set()
        await made.settled()
        assert status.authority()[1] > 0


@in_virtual_time
async def test_a_silent_broker_process_gets_no_authority_while_its_lease_is_waited_out() -> None:
    async with cluster() as made:
        (broker,) = made.brokers
        status = status_of(broker)
        await broker.ownership.acquire(made.bundles[0])
        until_s = broker.clock.now_s() + status.authority()[1] / 1000
        broker.steering.fail("loaded", times=40)
        releasing = asyncio.get_running_loop().create_task(
            broker.ownership.release_all(), name="release all"
        )
        # Heartbeats go on all the time: the session would give more and more.
        while not releasing.done():
            await asyncio.sleep(0.1)
            assert status.authority()[1] == 0
        assert broker.clock.now_s() >= until_s
        assert broker.nodes() == {}


async def test_the_daemon_answers_with_what_its_ownership_has_granted() -> None:
    assembly = built(settings_with())
    # The bundles of this session are not re-acquired yet.
    assembly.services.ownership.on_grant(Grant(7, 1e9))
    assert assembly.status.authority() == (7, 0)


@in_virtual_time
async def test_a_broker_whose_connection_is_lost_is_ready_and_says_what_it_answers() -> None:
    async with cluster() as made:
        (broker,) = made.brokers
        status = status_of(broker)
        status.now = Readiness(is_ready=True)
        assert status.readiness().reason == ""
        broker.memory.disconnect()
        left_s = broker.watcher.deadline_s - broker.clock.now_s()
        assert status.readiness() == Readiness(
            is_ready=True,
            reason=f"ZooKeeper is away: this broker serves until its lease ends in {left_s:.0f} s; "
            "lookups of what it does not serve are answered with 503",
        )
        await eventually(lambda: broker.watcher.state is SessionState.LOST, deadline_s=60.0)
        assert not status.readiness().is_ready
