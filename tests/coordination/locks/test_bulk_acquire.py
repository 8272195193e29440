"""Many locks in one transaction, and what stands in the way of some of them."""

import asyncio

import pytest

from broker_ctl.coordination.bulk_acquire import LockRequest, acquire_all
from broker_ctl.coordination.locks import Lock, Locks
from broker_ctl.errors import SessionExpired
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store.interface import Check, CreateMode, Operation, Result
from tests.support.clusters.sessions import Party, parties

ROOT = "/locks"
GUARD = Check("/ring", 0)
WISHES = [LockRequest(f"{ROOT}/{number % 3}/{number}", (GUARD,)) for number in range(30)]


def locks_of(party: Party) -> Locks:
    return Locks(
        party.store,
        ROOT,
        broker_id=party.broker_id,
        broker_of=lambda node: node.data.decode(),
        rng=party.rng,
    )


async def taken(party: Party, requests: list[LockRequest]) -> list[Lock]:
    data = party.broker_id.encode()
    return await acquire_all(party.store, locks_of(party), requests, data, lambda _: None)


@in_virtual_time
async def test_all_come_at_one_zxid_and_their_parents_are_made() -> None:
    async with parties() as (one,):
        await one.store.create("/ring")
        locks = await taken(one, WISHES)
        assert sorted(lock.path for lock in locks) == sorted(request.path for request in WISHES)
        assert len({lock.token for lock in locks}) == 1
        for request in WISHES:
            node = await one.store.get(request.path)
            assert node is not None
            assert node.stat.ephemeral_owner == one.store.session_id


@in_virtual_time
async def test_nodes_that_exist_already_are_left_out_and_the_others_are_acquired() -> None:
    async with parties(2) as (one, other):
        await one.store.create("/ring")
        stolen = {WISHES[3].path, WISHES[17].path}
        for path in stolen:
            await other.store.create(path, b"other", CreateMode.EPHEMERAL, make_parents=True)
        locks = await taken(one, WISHES)
        assert {lock.path for lock in locks} == {request.path for request in WISHES} - stolen


@pytest.mark.parametrize("is_first", [True, False])
@in_virtual_time
async def test_a_ring_that_has_changed_stops_its_own_locks_only(*, is_first: bool) -> None:
    async with parties() as (one,):
        await one.store.create("/ring")
        await one.store.create("/other-ring")
        await one.store.set("/other-ring", b"split")
        late = [LockRequest(f"{ROOT}/late", (GUARD, Check("/other-ring", 0)))]
        locks = await taken(one, [*late, *WISHES] if is_first else [*WISHES, *late])
        assert {lock.path for lock in locks} == {request.path for request in WISHES}


@in_virtual_time
async def test_a_session_that_ends_before_the_answer_gives_no_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with parties() as (one,):
        await one.store.create("/ring")
        multi = one.store.multi

        async def expire_after(operations: list[Operation]) -> tuple[Result, ...]:
            results = await multi(operations)
            one.expire()
            await asyncio.sleep(1.0)
            return results

        monkeypatch.setattr(one.store, "multi", expire_after)
        await one.store.create(f"{ROOT}/0", make_parents=True)
        with pytest.raises(SessionExpired):
            await taken(one, WISHES[:1])
