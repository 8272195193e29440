"""The session watcher: what it may rely on, since when and until when."""

import asyncio
import logging
import math
from itertools import pairwise

import pytest

from broker_ctl.coordination.session import AuthorityMode
from broker_ctl.core.machines.session import SessionAction, SessionMachineEvent, SessionState
from broker_ctl.errors import AuthorityLost, SessionExpired, SettingsError, StoreClosed
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.servers import MemoryClient
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import ANY_VERSION, Stat
from broker_ctl.store.records.broker_ctl import LeaseRecord
from broker_ctl.tasks import TaskScope
from tests.support.clusters.sessions import TIMEOUT_S, Party, parties
from tests.support.time.waiting import eventually

MARGIN_S = 0.35
PERIOD_S = 1.25


async def never() -> None:
    await asyncio.get_running_loop().create_future()


@in_virtual_time
async def test_committed_heartbeats_prove_authority_and_keep_it() -> None:
    async with parties() as (one,):
        # The first one rests on the handshake, of which only the end was seen.
        await asyncio.sleep(2 * PERIOD_S)
        least_s = math.inf
        for _ in range(400):
            await asyncio.sleep(0.1)
            one.watcher.check()
            least_s = min(least_s, one.watcher.deadline_s - one.clock.now_s())
        assert least_s > 0.7 * TIMEOUT_S
        node = await one.store.get(paths.lease(one.broker_id))
        assert node is not None
        assert LeaseRecord.decode(node.path, node.data).nonce == "nonce-0"
        # One write a period, and no more.
        assert node.stat.version == pytest.approx(42.5 / PERIOD_S, abs=2)
        assert one.actions == [SessionAction.BEGIN]


@in_virtual_time
async def test_grants_reach_as_far_as_the_heartbeat_before_proves_and_no_farther() -> None:
    async with parties() as (one,):
        await asyncio.sleep(20.0)
        deadlines = [grant.deadline_s for grant in one.grants]
        assert deadlines == sorted(deadlines)
        for before, after in pairwise(deadlines[3:]):
            assert after - before == pytest.approx(PERIOD_S, abs=0.01)
        assert deadlines[-1] < one.clock.now_s() + TIMEOUT_S - MARGIN_S


@in_virtual_time
async def test_silence_for_longer_than_the_lease_withdraws_authority_before_the_servers_do() -> (
    None
):
    async with parties() as (one,):
        await asyncio.sleep(5.0)
        one.store.disconnect()
        cut_s = one.clock.now_s()
        await eventually(lambda: one.watcher.state is SessionState.LOST, deadline_s=20.0)
        assert one.store.session_id in one.ensemble.session_ids
        assert one.clock.now_s() - cut_s < TIMEOUT_S - MARGIN_S + 0.1
        with pytest.raises(AuthorityLost):
            one.watcher.check()
        assert one.grants[-1].deadline_s == 0.0
        assert one.actions == [
            SessionAction.BEGIN,
            SessionAction.CONNECTION_LOST,
            SessionAction.FENCE,
            SessionAction.SESSION_LOST,
        ]


@in_virtual_time
async def test_rights_come_back_in_the_same_session_with_a_proof_not_with_the_connection() -> None:
    async with parties() as (one,):
        await asyncio.sleep(5.0)
        session_id = one.store.session_id
        one.store.disconnect()
        await eventually(
            lambda: one.watcher.state is SessionState.LOST, deadline_s=20.0, poll_s=0.01
        )
        one.store.reconnect()
        await one.store.wait_connected()
        assert not one.has_authority
        await one.watcher.wait_authority()
        assert one.store.session_id == session_id
        assert one.watcher.epoch == 1
        assert one.actions[4:] == [
            SessionAction.VERIFY,
            SessionAction.RECONNECTED,
            SessionAction.SESSION_REESTABLISHED,
            SessionAction.VERIFY,
        ]


@in_virtual_time
async def test_a_short_cut_costs_no_authority_and_has_everything_verified() -> None:
    async with parties() as (one,):
        await asyncio.sleep(5.0)
        one.store.disconnect()
        await asyncio.sleep(2.0)
        one.watcher.check()
        one.store.reconnect()
        await eventually(lambda: one.watcher.state is SessionState.CONNECTED)
        assert one.actions[1:] == [
            SessionAction.CONNECTION_LOST,
            SessionAction.RECONNECTED,
            SessionAction.VERIFY,
        ]
        await asyncio.sleep(2 * PERIOD_S)
        assert one.watcher.deadline_s > one.clock.now_s() + 0.7 * TIMEOUT_S


@in_virtual_time
async def test_an_expiry_ends_the_session_and_a_new_one_has_rights_at_once() -> None:
    async with parties() as (one,):
        await asyncio.sleep(5.0)
        one.expire()
        expired_s = one.clock.now_s()
        await eventually(lambda: one.watcher.epoch == 2, poll_s=0.001)
        await one.watcher.wait_authority()
        # No rest until the next heartbeat would have been due: others wait for the grace only.
        assert one.clock.now_s() - expired_s < 0.1
        assert one.actions[1:] == [
            SessionAction.CONNECTION_LOST,
            SessionAction.FENCE,
            SessionAction.END,
            SessionAction.SESSION_LOST,
            SessionAction.RECONNECTED,
            SessionAction.SESSION_REESTABLISHED,
            SessionAction.BEGIN,
        ]
        one.watcher.check_epoch(2)
        with pytest.raises(AuthorityLost):
            one.watcher.check_epoch(1)


@in_virtual_time
async def test_time_that_passed_while_the_loop_stood_still_counts_at_the_next_use() -> None:
    async with parties() as (one,):
        one.watcher.check()
        one.clock.stalled_s = TIMEOUT_S
        with pytest.raises(AuthorityLost):
            one.watcher.check()


@in_virtual_time
async def test_authority_that_lapsed_while_the_machine_was_suspended_is_reported_as_lost() -> None:
    async with parties() as (one,):
        await asyncio.sleep(5.0)
        # As short as to leave the session alive: the next heartbeats prove it again.
        one.clock.stalled_s = TIMEOUT_S
        await eventually(lambda: one.watcher.state is SessionState.LOST, deadline_s=1.0)
        assert one.actions[1:] == [SessionAction.FENCE, SessionAction.SESSION_LOST]
        assert one.grants[-1].deadline_s == 0.0
        await one.watcher.wait_authority()
        assert one.watcher.epoch == 1
        assert SessionAction.VERIFY in one.actions


@in_virtual_time
async def test_a_heartbeat_that_was_found_by_reading_proves_nothing() -> None:
    async with parties() as (one,):
        await asyncio.sleep(5 * PERIOD_S)
        original = one.store.set
        found: list[float] = []

        async def set_then_cut(path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
            stat = await original(path, data, version)
            one.store.set = original  # type: ignore[method-assign]  # once
            # Executed, and the reply lost: the store reads on the next connection what came of it.
            one.store.disconnect()
            await asyncio.sleep(1.0)
            one.store.reconnect()
            await one.store.wait_connected()
            found.append(one.watcher.deadline_s)
            return stat

        one.store.set = set_then_cut  # type: ignore[method-assign]  # one lost reply
        await eventually(lambda: found, poll_s=0.0001)
        await asyncio.sleep(0)
        assert one.watcher.deadline_s == found[0]
        # The next one is sent at once, and proves.
        await eventually(lambda: one.watcher.deadline_s > found[0], deadline_s=0.1)


@in_virtual_time
async def test_a_heartbeat_counts_from_when_it_was_sent_not_from_its_answer() -> None:
    async with parties() as (one,):
        await asyncio.sleep(5 * PERIOD_S)
        sent_s: list[float] = []
        original = one.store.set

        async def slowly(path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
            sent_s.append(one.clock.now_s())
            stat = await original(path, data, version)
            await asyncio.sleep(3.0)  # the answer is on its way
            return stat

        one.store.set = slowly  # type: ignore[method-assign]  # slow answers
        await eventually(lambda: len(sent_s) == 5, deadline_s=60.0)
        answered_s = [sent for sent in sent_s if sent + 3.0 <= one.clock.now_s()]
        # The newest answer proves what was sent before it.
        assert one.watcher.deadline_s == pytest.approx(answered_s[-2] + TIMEOUT_S - MARGIN_S)
        # And the heartbeat after a slow answer waits until the server has reported to its leader.
        assert all(b - a >= 3.0 + 0.75 for a, b in pairwise(sent_s))


@in_virtual_time
async def test_the_first_lease_counts_from_before_the_handshake_was_answered() -> None:
    one = Party(MemoryEnsemble())
    one.longest_s, began_s = 0.95, one.clock.now_s()

    def quick(_event: object) -> None:
        one.longest_s = 0.002

    one.store.listen(quick)
    await one.start()
    assert one.clock.now_s() > began_s + 1.0
    first = next(grant for grant in one.grants if grant.deadline_s > 0)
    # As the server counts, which took the session up on the way.
    assert first.deadline_s <= began_s + TIMEOUT_S - MARGIN_S
    await one.close()


@in_virtual_time
async def test_the_first_lease_counts_from_before_a_handshake_during_which_the_machine_slept() -> (
    None
):
    one = Party(MemoryEnsemble())
    one.longest_s, began_s = 0.95, one.clock.now_s()

    def sleep_and_be_quick(_event: object) -> None:
        # It is called before the watcher: the machine slept until the answer was read.
        one.clock.stalled_s = 4.0
        one.longest_s = 0.002

    one.store.listen(sleep_and_be_quick)
    await one.start()
    first = next(grant for grant in one.grants if grant.deadline_s > 0)
    assert first.deadline_s <= began_s + TIMEOUT_S - MARGIN_S
    await one.close()


@in_virtual_time
async def test_a_shorter_lease_counts_from_before_a_handshake_during_which_the_machine_slept() -> (
    None
):
    async with parties() as (one,):
        limits = Granting(one)
        await asyncio.sleep(5.0)
        left_s: list[float] = []

        def doze() -> None:
            one.clock.stalled_s += 1.5

        def sleep(action: SessionAction) -> None:
            if action is SessionAction.CONNECTION_LOST:
                # Once the loss is known, while the next handshake is on its way.
                asyncio.get_running_loop().call_soon(doze)
            elif action is SessionAction.RECONNECTED:
                left_s.append(one.watcher.deadline_s - one.clock.now_s())

        one.watcher.listen(sleep)
        limits.timeout_s = 7.0
        one.blink()
        await eventually(lambda: one.watcher.state is SessionState.CONNECTED)
        assert max(left_s) < 7.0 - 1.5


class Granting:
    """The limits that a server has set on session timeouts, from now on."""

    def __init__(self, party: Party) -> None:
        self._party = party
        self._attach = party.ensemble.attach
        self.timeout_s = TIMEOUT_S
        party.ensemble.attach = self.attach  # type: ignore[method-assign]  # other limits

    def attach(self, client: MemoryClient, session_id: int, timeout_s: float) -> int:
        session_id = self._attach(client, session_id, timeout_s)
        self._party.ensemble._sessions[session_id].timeout_s = self.timeout_s
        self._party.store._session._timeout_s = self.timeout_s
        return session_id


@in_virtual_time
async def test_a_server_that_grants_the_session_less_time_shortens_the_lease_at_once() -> None:
    async with parties() as (one,):
        limits = Granting(one)
        await asyncio.sleep(5.0)
        left_s: list[float] = []

        def note(action: SessionAction) -> None:
            if action is SessionAction.RECONNECTED:
                left_s.append(one.watcher.deadline_s - one.clock.now_s())

        one.watcher.listen(note)
        session_id, limits.timeout_s = one.store.session_id, 7.0
        one.blink()
        await eventually(lambda: one.watcher.state is SessionState.CONNECTED)
        assert max(left_s) < 7.0
        assert one.watcher.deadline_s < one.clock.now_s() + 7.0
        assert one.grants[-1].deadline_s == one.watcher.deadline_s
        await asyncio.sleep(6.0)
        # And it stays alive on less: the heartbeats prove the shorter one.
        one.watcher.check_epoch(1)
        one.store.disconnect()
        await eventually(
            lambda: session_id not in one.ensemble.session_ids, deadline_s=20.0, poll_s=0.01
        )
        assert not one.has_authority


@in_virtual_time
async def test_a_later_server_that_grants_more_again_does_not_lengthen_it() -> None:
    async with parties() as (one,):
        limits = Granting(one)
        for limits.timeout_s in (7.0, TIMEOUT_S):
            one.blink()
            await asyncio.sleep(6.0)
        # The former server may report the session late, with the timeout that it granted.
        assert one.watcher.deadline_s < one.clock.now_s() + 7.0


@in_virtual_time
async def test_a_server_that_grants_too_little_for_a_lease_ends_the_work_with_the_reason() -> None:
    async with parties() as (one,), TaskScope("test") as scope:
        limits = Granting(one)
        work = Work()
        running = scope.start(one.watcher.run_epochs(work), "epochs", is_joined=True)
        await eventually(lambda: work.began == [1])
        limits.timeout_s = 6.0
        one.blink()
        await eventually(running.done, deadline_s=20.0)
        with pytest.raises(SettingsError, match=r"6 s is too short"):
            await running
        assert work.ended == [1]


class StuckStore(MemoryStore):
    """A server that answers pings and reads, and commits nothing."""

    is_stuck = False

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        if self.is_stuck:
            await never()
        return await super().set(path, data, version)


@in_virtual_time
async def test_a_connection_over_which_nothing_commits_gives_no_authority() -> None:
    ensemble = MemoryEnsemble()
    store = StuckStore(ensemble, session_timeout_s=TIMEOUT_S)
    one = Party(ensemble, store=store)
    await one.start()
    store.is_stuck = True
    await eventually(lambda: one.watcher.state is SessionState.LOST, deadline_s=20.0)
    assert store.is_connected
    assert one.actions[1:] == [SessionAction.FENCE, SessionAction.SESSION_LOST]
    await one.close()


@in_virtual_time
async def test_a_proof_that_its_connection_did_not_outlive_leads_to_no_dead_end() -> None:
    async with parties() as (one,):
        one.store.disconnect()
        await eventually(
            lambda: one.watcher.state is SessionState.LOST, deadline_s=20.0, poll_s=0.01
        )
        # The answer was taken off the wire, and the wire cut, in one turn of the loop.
        one.watcher._feed(SessionMachineEvent.LEASE_RENEWED)
        one.store.reconnect()
        await one.watcher.wait_authority()
        assert one.watcher.state is SessionState.CONNECTED
        assert one.actions[-1] is SessionAction.VERIFY


# Other authorities.


@in_virtual_time
async def test_with_storage_authority_lasts_through_outages_and_ends_with_the_store() -> None:
    async with parties(mode=AuthorityMode.STORAGE) as (one,):
        one.store.disconnect()
        await asyncio.sleep(3 * TIMEOUT_S)
        one.watcher.check()
        one.store.reconnect()
        await eventually(lambda: one.watcher.state is SessionState.EXPIRED, poll_s=0.0001)
        one.watcher.check()
        # A request to the store needs a session nevertheless.
        with pytest.raises(AuthorityLost):
            one.watcher.check_epoch(1)
        await eventually(lambda: one.watcher.epoch == 2)
        await one.watcher.close()
        assert one.watcher.deadline_s == 0.0
        assert one.grants[-1].deadline_s == 0.0


@in_virtual_time
async def test_pulsars_timer_runs_from_the_cut_for_five_sixths_of_the_timeout() -> None:
    async with parties(mode=AuthorityMode.PULSAR56) as (one,):
        assert one.watcher.deadline_s == math.inf
        one.store.disconnect()
        cut_s = one.clock.now_s()
        assert one.watcher.deadline_s == pytest.approx(cut_s + TIMEOUT_S * 5 / 6)
        await eventually(
            lambda: one.watcher.state is SessionState.LOST, deadline_s=20.0, poll_s=0.01
        )
        one.store.reconnect()
        await one.watcher.wait_authority()
        assert one.watcher.epoch == 1


# Scopes.


class Work:
    """Counts what `run_epochs` does with it."""

    def __init__(self) -> None:
        self.began: list[int] = []
        self.ended: list[int] = []

    async def __call__(self, epoch: int) -> None:
        self.began.append(epoch)
        try:
            await never()
        finally:
            # Giving up may take its time; the next session's work waits for it.
            await asyncio.sleep(0.5)
            self.ended.append(epoch)


@in_virtual_time
async def test_work_runs_once_in_each_session_and_is_cancelled_at_its_end() -> None:
    async with parties() as (one,), TaskScope("test") as scope:
        work = Work()
        running = scope.start(one.watcher.run_epochs(work), "epochs")
        await eventually(lambda: work.began == [1])
        one.blink()
        await asyncio.sleep(1.0)
        assert work.ended == []
        one.expire()
        await eventually(lambda: work.began == [1, 2])
        assert work.ended == [1]
        one.expire()
        await eventually(lambda: work.began == [1, 2, 3])
        await one.store.close()
        await running
        assert work.ended == [1, 2, 3]


@in_virtual_time
async def test_nothing_runs_on_once_it_is_over() -> None:
    mine = asyncio.current_task()
    async with parties() as (one,), TaskScope("test") as scope:
        work = Work()
        scope.start(one.watcher.run_epochs(work), "epochs")
        await eventually(lambda: work.began == [1])
        one.expire()
        await eventually(lambda: work.began == [1, 2])
    assert {task.get_name() for task in asyncio.all_tasks() if task is not mine} == set()


@in_virtual_time
async def test_an_error_that_comes_of_the_end_of_a_session_does_not_end_the_next() -> None:
    async with parties() as (one,), TaskScope("test") as scope:
        began: list[int] = []

        async def work(epoch: int) -> None:
            began.append(epoch)
            async with asyncio.TaskGroup() as group:
                # Hears of the end from the store itself, a turn before the watcher cancels it.
                group.create_task(one.store.create(f"/{epoch}"), name="create")
                group.create_task(never(), name="never")
                await asyncio.sleep(2.0)
                raise SessionExpired("heard before the watcher")

        running = scope.start(one.watcher.run_epochs(work), "epochs")
        await asyncio.sleep(5.0)
        assert not running.done()
        one.expire()
        await eventually(lambda: began == [1, 2])


@in_virtual_time
async def test_work_whose_group_heard_of_the_end_first_is_begun_again_in_the_next_session() -> None:
    async with parties() as (one,), TaskScope("test") as scope:
        began: list[int] = []

        async def fail() -> None:
            await asyncio.sleep(1.0)
            raise SessionExpired("heard before the watcher")

        async def work(epoch: int) -> None:
            began.append(epoch)
            # The group fails while the task around it waits for it and for nothing else.
            async with asyncio.TaskGroup() as group:
                group.create_task(fail(), name="fail")

        running = scope.start(one.watcher.run_epochs(work), "epochs")
        await asyncio.sleep(5.0)
        assert not running.done()
        one.expire()
        await eventually(lambda: began == [1, 2])


@pytest.mark.parametrize("error", [AuthorityLost("no session"), StoreClosed("closed")])
@in_virtual_time
async def test_an_error_while_the_session_lives_is_raised(error: Exception) -> None:
    async with parties() as (one,):

        async def work(_epoch: int) -> None:
            raise error

        with pytest.raises(ExceptionGroup) as met:
            await one.watcher.run_epochs(work)
        assert met.group_contains(type(error))


@in_virtual_time
async def test_an_error_after_the_end_of_the_session_is_not_raised() -> None:
    async with parties() as (one,):
        began: list[int] = []

        async def work(epoch: int) -> None:
            began.append(epoch)
            try:
                await never()
            except asyncio.CancelledError as cancelled:
                raise AuthorityLost("seen while giving up") from cancelled

        async with TaskScope("test") as scope:
            scope.start(one.watcher.run_epochs(work), "epochs")
            await eventually(lambda: began == [1])
            one.expire()
            await eventually(lambda: began == [1, 2])


@in_virtual_time
async def test_a_timeout_in_which_no_lease_fits_is_refused_when_it_is_known() -> None:
    ensemble = MemoryEnsemble()
    one = Party(ensemble, timeout_s=6.0)
    one.watcher.start()
    await one.store.start()
    with pytest.raises(SettingsError, match="6 s is too short"):
        await one.watcher.run_epochs(Work())
    await one.close()


@in_virtual_time
async def test_an_end_that_comes_in_groups_is_logged_by_its_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with parties() as (party,), TaskScope("test") as tasks:

        async def work(_epoch: int) -> None:
            raise ExceptionGroup("outer", [ExceptionGroup("inner", [SessionExpired("it is gone")])])

        with caplog.at_level(logging.INFO):
            tasks.start(party.watcher.run_epochs(work), "epochs")
            await eventually(lambda: "session 1: it is gone" in caplog.text)
