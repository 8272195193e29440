"""Moves: a record is a reservation that all see, and each write of it voids what was before."""

import random
from dataclasses import replace

import pytest

from broker_ctl.coordination.directives import Moves
from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import BadVersion, MultiFailed, NodeExists
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import Check, Operation
from broker_ctl.store.records.broker_ctl import MoveNode
from tests.support.clusters.sessions import Party, parties
from tests.support.time.waiting import eventually

BUNDLE = Bundle.parse("t/ns/0x40000000_0x80000000")
MOVE = MoveNode("m1", BUNDLE, 1, "a:1", 42, "b:1", 1_000, 3)


async def epoch_node(party: Party) -> None:
    await party.store.create("/epoch")


def guard(epoch: int) -> Operation:
    return Check("/epoch", epoch)


@in_virtual_time
async def test_a_move_is_seen_by_all_for_its_bundle_and_what_overlaps_it() -> None:
    async with parties(2) as (leader, other):
        await epoch_node(leader)
        seen = Moves(other.store, rng=random.Random(1))
        await seen.start()
        record = await Moves(leader.store, rng=random.Random(1)).begin(MOVE, guard(0))
        await eventually(lambda: seen.all == [record])
        assert seen.of(BUNDLE) == record
        assert seen.of(Bundle.parse("t/ns/0x00000000_0xffffffff")) == record
        assert seen.of(Bundle.parse("t/ns/0x80000000_0xffffffff")) is None
        assert seen.of(Bundle.parse("t/other/0x40000000_0x80000000")) is None
        assert await Moves(leader.store, rng=random.Random(1)).end(record, guard(0))
        await eventually(lambda: seen.all == [])
        await seen.close()


@in_virtual_time
async def test_only_the_newest_leader_reserves_and_an_id_is_used_once() -> None:
    async with parties() as (leader,):
        await epoch_node(leader)
        moves = Moves(leader.store, rng=random.Random(1))
        with pytest.raises(MultiFailed) as met:
            await moves.begin(MOVE, guard(7))
        assert met.value.index == 0
        await moves.begin(MOVE, guard(0))
        with pytest.raises(MultiFailed) as met:
            await moves.begin(MOVE, guard(0))
        assert isinstance(met.value.cause, NodeExists)


@in_virtual_time
async def test_a_new_leader_s_write_voids_the_orders_of_the_old_one() -> None:
    async with parties() as (leader,):
        await epoch_node(leader)
        moves = Moves(leader.store, rng=random.Random(1))
        old = await moves.begin(MOVE, guard(0))
        await leader.store.multi([old.guard])
        await leader.store.set("/epoch", b"")
        new = await moves.adopt(old, 2, guard(1))
        assert new.move == replace(MOVE, epoch=2)
        assert await moves.read("m1") == new
        with pytest.raises(MultiFailed):
            await leader.store.multi([old.guard])
        await leader.store.multi([new.guard])
        # The old leader can neither write nor end it.
        with pytest.raises(MultiFailed) as met:
            await moves.adopt(old, 1, guard(0))
        assert met.value.index == 0
        assert isinstance(met.value.cause, BadVersion)
        with pytest.raises(MultiFailed):
            await moves.end(old, guard(0))
        # Nor the record as it is now, which it may have read.
        with pytest.raises(MultiFailed):
            await moves.adopt(new, 1, guard(0))
        with pytest.raises(MultiFailed):
            await moves.end(new, guard(0))
        assert await moves.read("m1") == new


@in_virtual_time
async def test_a_move_that_was_ended_already_is_reported_as_over() -> None:
    async with parties() as (leader,):
        await epoch_node(leader)
        moves = Moves(leader.store, rng=random.Random(1))
        first = await moves.begin(MOVE, guard(0))
        second = await moves.adopt(first, 1, guard(0))
        # Also a record that this leader has written again itself.
        with pytest.raises(MultiFailed) as met:
            await moves.adopt(first, 1, guard(0))
        assert met.value.index == 1
        assert not await moves.end(first)
        assert await moves.end(second)
        assert not await moves.end(second)
        assert await moves.read("m1") is None


@in_virtual_time
async def test_a_record_that_does_not_decode_is_left_out_and_counted() -> None:
    async with parties() as (one,):
        await one.store.create(paths.move("m9"), b"{", make_parents=True)
        moves = Moves(one.store, rng=random.Random(1))
        await moves.start()
        await moves.wait_synced()
        assert moves.all == []
        assert moves.corrupt == 1
        await moves.close()
