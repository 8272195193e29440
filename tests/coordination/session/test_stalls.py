"""Heartbeats of a thread while the event loop does not run."""

import asyncio

import pytest

from broker_ctl.core.machines.session import SessionAction
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import StallWrite
from broker_ctl.store.records.broker_ctl import LeaseRecord
from tests.support.clusters.sessions import TIMEOUT_S, SteppableClock, parties
from tests.support.time.waiting import eventually

PERIOD_S = 1.25
MARGIN_S = 0.35
REPORT_DELAY_S = 0.75


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[StallWrite | None]:
    """What the store was given to repeat, in order."""
    given: list[StallWrite | None] = []
    monkeypatch.setattr(MemoryStore, "repeat_in_stalls", lambda _, write: given.append(write))
    return given


def last(writes: list[StallWrite | None]) -> StallWrite:
    assert writes
    assert writes[-1] is not None
    return writes[-1]


@in_virtual_time
async def test_a_thread_writes_the_lease_node_at_the_pace_of_heartbeats(
    writes: list[StallWrite | None],
) -> None:
    async with parties() as (one,):
        write = last(writes)
        assert write.write.path == paths.lease(one.broker_id)
        assert LeaseRecord.decode("", write.write.data).nonce == "nonce-0"
        assert write.period_s == PERIOD_S


@in_virtual_time
async def test_they_prove_what_heartbeats_prove_from_the_time_of_sending(
    writes: list[StallWrite | None],
) -> None:
    async with parties() as (one,):
        await asyncio.sleep(10.0)
        one.store.disconnect()
        began_s, before_s = one.clock.now_s(), one.watcher.deadline_s
        prove = last(writes).on_committed
        # The second was sent when the first might not have been reported yet.
        prove(began_s + 1.0, began_s + 2.0)
        prove(began_s + 2.0 + REPORT_DELAY_S - 0.01, began_s + 2.8)
        assert one.watcher.deadline_s < began_s + 1.0 + TIMEOUT_S - MARGIN_S
        prove(began_s + 2.0 + REPORT_DELAY_S, began_s + 2.9)
        assert one.watcher.deadline_s == pytest.approx(began_s + 1.0 + TIMEOUT_S - MARGIN_S)
        assert one.watcher.deadline_s > before_s


@in_virtual_time
async def test_those_of_an_ended_session_prove_nothing_and_end_with_it(
    writes: list[StallWrite | None],
) -> None:
    async with parties() as (one,):
        await asyncio.sleep(10.0)
        former = last(writes).on_committed
        one.ensemble.expire(one.store.session_id)
        await eventually(lambda: one.watcher.epoch == 2)
        assert writes[-2] is None
        assert last(writes).on_committed is not former
        before_s = one.watcher.deadline_s
        later_s = one.clock.now_s() + 100.0
        former(later_s, later_s)
        former(later_s + 5.0, later_s + 5.0)
        assert one.watcher.deadline_s == before_s


@in_virtual_time
async def test_proofs_that_wait_in_the_socket_are_read_before_authority_is_withdrawn(
    writes: list[StallWrite | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with parties() as (one,):
        await asyncio.sleep(10.0)
        one.store.disconnect()
        prove, loop = last(writes).on_committed, asyncio.get_running_loop()

        def read() -> None:
            now_s = plain(one.clock)
            prove(now_s - 2.0, now_s - 2.0)
            prove(now_s - 1.0, now_s - 1.0)

        def stalling(clock: SteppableClock) -> float:
            """The loop stands still right before the deadline is compared with the clock."""
            task = asyncio.current_task()
            if not clock.stalled_s and task is not None and "deadline" in task.get_name():
                clock.stalled_s = 2 * TIMEOUT_S
                loop.call_soon(read)
            return plain(clock)

        plain = SteppableClock.now_s
        monkeypatch.setattr(SteppableClock, "now_s", stalling)
        await eventually(lambda: one.clock.stalled_s, deadline_s=20.0)
        await asyncio.sleep(0.1)
        one.watcher.check()
        assert SessionAction.FENCE not in one.actions
