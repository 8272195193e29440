"""What a scrape of a whole daemon finds: red where a line that feeds it is taken out."""

import asyncio

import pytest

from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import NoNode
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.simulated import SimulatedDataPlane
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import CreateMode, Versioned
from tests.support.daemon.whole_daemon import whole_daemon
from tests.support.time.waiting import eventually

STRANGER = Bundle.parse("public/default/0x00000000_0xffffffff")


@in_virtual_time
async def test_deletions_that_wait_are_shown_with_their_age_and_those_given_up_are_counted() -> (
    None
):
    async with whole_daemon() as run:
        await run.wait_ready()
        deletions = run.assembly.foundation.deletions
        assert run.readings("broker_ctl_deletions_queued") == {(): 0}
        run.around.store.disconnect()
        deletions.add("/a", 1)
        await asyncio.sleep(2.0)
        assert run.readings("broker_ctl_deletions_queued") == {(): 1}
        assert run.readings("broker_ctl_deletions_age_seconds")[()] == pytest.approx(2.0)
        run.around.store.reconnect()
        await eventually(lambda: run.readings("broker_ctl_deletions_queued") == {(): 0})
        deletions.given_up += 3
        assert run.readings("broker_ctl_deletions_given_up_total") == {(): 3}


@in_virtual_time
async def test_events_of_the_session_are_counted() -> None:
    async with whole_daemon() as run:
        await run.wait_ready()
        run.around.store.disconnect()
        run.around.store.reconnect()
        await eventually(lambda: run.is_ready and run.around.store.is_connected)
        events = run.readings("broker_ctl_session_events_total")
        assert events == {("ConnectionLost",): 1, ("Reconnected",): 1}
        run.ensemble.expire(run.around.store.session_id)
        await eventually(lambda: run.assembly.foundation.watcher.epoch == 2)
        await run.wait_ready()
        events = run.readings("broker_ctl_session_events_total")
        assert events[("SessionLost",)] == events[("SessionReestablished",)] == 1


@in_virtual_time
async def test_a_background_task_that_dies_is_counted_and_the_daemon_is_not_ready_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with whole_daemon() as run:
        await run.wait_ready()
        assert run.readings("broker_ctl_dead_tasks") == {(): 0}

        async def fail(_: object) -> None:
            raise ZeroDivisionError("on purpose")

        monkeypatch.setattr(run.assembly.coordination.directives._drains, "_read", fail)
        other = MemoryStore(run.ensemble)
        await other.start()
        path = f"{paths.DRAINS}/b:1"
        await other.create(path, b"{}", CreateMode.EPHEMERAL, make_parents=True)
        await eventually(lambda: not run.is_ready)
        reason = run.shown.readiness().reason
        assert "task copy of /broker-ctl/drain" in reason
        assert "restart this daemon" in reason
        assert run.readings("broker_ctl_dead_tasks") == {(): 1}
        assert run.readings("broker_ctl_task_failures_total") == {(): 1}
        await other.close()


@in_virtual_time
async def test_fences_and_restarts_of_the_broker_process_are_counted() -> None:
    async with whole_daemon() as run:
        await run.wait_ready()
        plane = run.assembly.services.dataplane
        assert isinstance(plane, SimulatedDataPlane)
        assert run.readings("broker_ctl_dataplane_fenced_total") == {(): 0}
        assert run.readings("broker_ctl_dataplane_restarts_total") == {(): 0}
        # It is nobody's, and its load comes from before this daemon.
        await plane.load(STRANGER, 1)
        await eventually(
            lambda: run.readings("broker_ctl_dataplane_fenced_total") == {(): 1}, deadline_s=60.0
        )
        assert await plane.loaded() == {}
        await plane.start()
        await eventually(
            lambda: run.readings("broker_ctl_dataplane_restarts_total") == {(): 1}, deadline_s=60.0
        )


@in_virtual_time
async def test_a_batch_that_one_of_its_writes_brings_down_is_counted_and_the_others_go_again() -> (
    None
):
    async with whole_daemon() as run:
        await run.wait_ready()
        store = run.assembly.foundation.metadata

        def rollbacks() -> dict[tuple[str, ...], float]:
            return run.readings("broker_ctl_multi_rollbacks_total")

        before = rollbacks()
        found: dict[str, Versioned | NoNode] = {}

        async def create(path: str) -> None:
            try:
                found[path] = await store.create(path)
            except NoNode as error:
                found[path] = error

        # Both are asked for in one turn, and go in one batch.
        async with asyncio.TaskGroup() as group:
            group.create_task(create("/good"), name="good")
            group.create_task(create("/none/bad"), name="bad")
        assert isinstance(found["/none/bad"], NoNode)
        assert isinstance(found["/good"], Versioned)
        name = ("metadata-store",)
        assert rollbacks() == {name: before.get(name, 0) + 1}
        await store.create("/alone")
        assert rollbacks() == {name: before.get(name, 0) + 1}
