"""On the list, read by all others, admitted; removed by one that is admitted itself."""

import asyncio

import pytest

from broker_ctl.core.failsafe.members import ListVersion
from broker_ctl.core.failsafe.promises import PROMISE_S
from broker_ctl.core.model.commands import RequestPromise
from broker_ctl.errors import MultiFailed, NotAdmitted, OrderConflict
from broker_ctl.store import paths
from broker_ctl.store.interface import Create
from broker_ctl.testing.memory_store.ensemble import MemoryEnsemble
from broker_ctl.testing.virtual_time import in_virtual_time
from tests.coordination.failsafe.members import Member, members
from tests.support.time.waiting import eventually

SETTLE_S = 1.0


@in_virtual_time
async def test_a_broker_is_admitted_once_all_have_known_of_it_for_the_length_of_a_promise() -> None:
    async with members(2) as made:
        late = Member(made[0].ensemble, 2, made[0].others)
        began_s = late.clock.now_s()
        try:
            await late.start()
            await eventually(lambda: len(late.membership.reads) == 3)
            assert not late.may_acquire
            await late.membership.wait()
            assert late.clock.now_s() - began_s >= PROMISE_S
            assert late.may_acquire
        finally:
            await late.close()


@in_virtual_time
async def test_a_member_that_has_not_read_the_list_keeps_a_new_broker_waiting() -> None:
    async with members(2) as made:
        silent = made[1]
        silent.store.disconnect()
        late = Member(made[0].ensemble, 2, made[0].others)
        try:
            await late.start()
            await asyncio.sleep(5 * PROMISE_S)
            assert not late.may_acquire
            assert await made[0].membership.remove([silent.broker_id]) == [silent.broker_id]
            await late.membership.wait()
            assert late.may_acquire
        finally:
            await late.close()


@in_virtual_time
async def test_a_transaction_that_acquires_fails_once_the_list_has_changed() -> None:
    async with members(2) as made:
        checks = made[0].membership.checks
        await made[0].store.multi([*checks, Create("/a")])
        await made[0].membership.remove([made[1].broker_id])
        with pytest.raises(MultiFailed) as failed:
            await made[0].store.multi([*checks, Create("/b")])
        assert failed.value.index == 0

        async def is_created() -> bool:
            # The other one joins again meanwhile, and changes the list with that.
            await made[0].membership.on_failed(made[0].membership.checks)
            try:
                await made[0].store.multi([*made[0].membership.checks, Create("/b")])
            except MultiFailed:
                return False
            return True

        await eventually(is_created)


@in_virtual_time
async def test_who_was_removed_joins_again_as_a_new_member() -> None:
    async with members(2) as made:
        entry = made[1].membership.members
        assert entry is not None
        await made[0].membership.remove([made[1].broker_id])
        await eventually(lambda: not made[1].may_acquire)
        began_s = made[1].clock.now_s()
        await made[1].membership.wait()
        assert made[1].clock.now_s() - began_s >= PROMISE_S - SETTLE_S
        again = made[1].membership.members
        assert again is not None
        assert again.added[made[1].broker_id] > entry.added[made[1].broker_id]


@in_virtual_time
async def test_only_one_that_is_admitted_removes_others_and_never_itself() -> None:
    async with members(1) as made:
        late = Member(made[0].ensemble, 2, made[0].others)
        try:
            await late.start()
            with pytest.raises(NotAdmitted):
                await late.membership.remove([made[0].broker_id])
            with pytest.raises(OrderConflict):
                await made[0].membership.remove([made[0].broker_id])
            assert await made[0].membership.remove(["nobody:1"]) == []
        finally:
            await late.close()


@in_virtual_time
async def test_a_list_that_does_not_decode_lets_nobody_acquire_by_it() -> None:
    async with members(1) as (alone,):
        known = alone.membership.members
        await alone.store.set(paths.FAILSAFE_MEMBERS, b"nonsense")
        await asyncio.sleep(SETTLE_S)
        assert alone.membership.members == known
        with pytest.raises(MultiFailed):
            await alone.store.multi([*alone.membership.checks, Create("/a")])


@in_virtual_time
async def test_before_it_has_read_the_list_a_broker_promises_nothing() -> None:
    late = Member(MemoryEnsemble(), 0, {})
    reply = late.promises.give(RequestPromise("b1:8080", ListVersion(1, 0)))
    assert reply["promised"] is False
    assert late.promises.left_s == 0
