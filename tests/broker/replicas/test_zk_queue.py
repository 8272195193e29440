"""ZKQueue at the broker's end: in order, each to its end, and none twice."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from broker_ctl.broker.replicas.zk_queue import ZkQueue
from broker_ctl.codec import encode
from broker_ctl.core.partitions.instructions import Instruction
from broker_ctl.errors import DataPlaneUnreachable, Fenced
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import Notification, SessionEvent
from broker_ctl.tasks import TaskScope
from tests.support.clusters.sessions import Party, parties
from tests.support.replicas.instructions import instruct, replica_state
from tests.support.time.waiting import eventually


class Queued:
    """The queue of broker 1, and what came out of it, by the number of the partition.

    Attributes:
        seen: what was obeyed, in order.
        silent: how often nothing answers from now on.
        deposed: controllers below that epoch.
    """

    def __init__(self, party: Party, controller: Party) -> None:
        self.party = party
        self.controller = controller
        self.queue = ZkQueue(party.store, 1, self._handle, rng=random.Random(1))
        self.seen: list[int] = []
        self.silent = 0
        self.deposed = 0

    async def _handle(self, instruction: Instruction) -> None:
        if instruction.controller_epoch < self.deposed:
            raise Fenced("deposed")
        if self.silent:
            self.silent -= 1
            raise DataPlaneUnreachable("silent")
        # Whatever is applied takes its time, and more comes meanwhile.
        await asyncio.sleep(0.01)
        self.seen.append(instruction.partitions[0].partition.partition)

    async def put(self, *numbers: int, controller_epoch: int = 1) -> None:
        """Instructions, each about the partition of its own number."""
        for number in numbers:
            row = instruct(
                replica_state(f"t-{number}", 1), broker_epoch=7, controller_epoch=controller_epoch
            ).to_row()
            await self.put_raw(number, encode(row))

    async def put_raw(self, number: int, data: bytes) -> None:
        path = paths.queued(1, number)
        await self.controller.store.create(path, data, make_parents=True)

    async def waiting(self) -> list[int]:
        """Numbers of those that are not acknowledged."""
        names = await self.controller.store.children(paths.queue(1))
        return [int(name) for name in names]

    async def is_empty(self) -> bool:
        return await self.waiting() == []


@asynccontextmanager
async def queued(*, is_running: bool = True) -> AsyncIterator[Queued]:
    async with parties(2) as (party, controller), TaskScope("test") as scope:
        one = Queued(party, controller)
        stop = await one.queue.watch()
        if is_running:
            scope.start(one.queue.run(), "queue")
        yield one
        stop()


@in_virtual_time
async def test_instructions_are_applied_in_the_order_of_their_numbers_and_acknowledged() -> None:
    async with queued(is_running=False) as one:
        # 9 comes before 10 as a number, and not as a text.
        await one.put(10, 9, 100)
        async with TaskScope("test") as scope:
            scope.start(one.queue.run(), "queue")
            await eventually(one.is_empty)
            assert one.seen == [9, 10, 100]
            await one.put(101)
            await one.put(102)
            await eventually(one.is_empty)
        assert one.seen == [9, 10, 100, 101, 102]
        assert one.queue.applied == 5


@in_virtual_time
async def test_instructions_are_deleted_in_order_and_not_before_they_are_applied() -> None:
    async with queued() as one:
        gone: list[tuple[str, int]] = []

        def heard(notification: Notification) -> None:
            if notification.change.name == "DELETED":
                gone.append((notification.path[-2:], len(one.seen)))

        await one.controller.store.watch(paths.queue(1), heard)
        await one.put(*range(10, 40))
        await eventually(one.is_empty)
        assert one.seen == list(range(10, 40))
        assert [int(name) for name, _ in gone] == list(range(10, 40))
        assert all(int(name) - 10 < seen for name, seen in gone)


@in_virtual_time
async def test_a_stale_instruction_is_removed_and_one_that_does_not_decode_is_counted_too() -> None:
    async with queued() as one:
        one.deposed = 2
        await one.put(1, 2)
        await one.put_raw(3, b"{")
        await one.put_raw(4, b'{"version": 1}')
        await one.put(5, controller_epoch=2)
        await eventually(one.is_empty)
        assert one.seen == [5]
        assert (one.queue.applied, one.queue.corrupt) == (1, 2)


@in_virtual_time
async def test_an_instruction_of_a_newer_release_is_never_acknowledged_and_stops_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with queued() as one:
        row = instruct(replica_state("t-1", 1), broker_epoch=7).to_row() | {"version": 99}
        await one.put_raw(1, encode(row))
        await one.put(2)

        async def is_left() -> bool:
            return await one.waiting() == [1]

        await eventually(is_left)
        await one.put(3)
        await eventually(lambda: one.seen == [2, 3])
        await eventually(is_left)
        # It is logged once, and not read again with each instruction that comes.
        assert sum("format 99" in record.message for record in caplog.records) == 1


@in_virtual_time
async def test_an_instruction_that_fails_waits_and_so_do_all_behind_it() -> None:
    async with queued(is_running=False) as one:
        await one.put(1, 2, 3)
        one.silent = 3
        async with TaskScope("test") as scope:
            scope.start(one.queue.run(), "queue")
            await eventually(lambda: one.silent < 3)
            assert await one.waiting() == [1, 2, 3]
            await eventually(one.is_empty)
        assert one.seen == [1, 2, 3]


@in_virtual_time
async def test_instructions_before_one_that_fails_are_acknowledged() -> None:
    async with queued(is_running=False) as one:
        await one.put(1, 2, 3)
        handle = one._handle

        async def fail_at_2(instruction: Instruction) -> None:
            if instruction.partitions[0].partition.partition == 2:
                raise DataPlaneUnreachable("silent")
            await handle(instruction)

        queue = ZkQueue(one.party.store, 1, fail_at_2, rng=random.Random(1))
        async with TaskScope("test") as scope:
            scope.start(queue.run(), "queue")

            async def are_left() -> bool:
                return await one.waiting() == [2, 3]

            await eventually(are_left)
        assert one.seen == [1]


@in_virtual_time
async def test_a_queue_that_the_controller_empties_under_its_reader_works_on() -> None:
    async with queued() as one:
        await one.put(*range(1, 30))
        await eventually(lambda: one.seen)
        for number in await one.waiting():
            await one.controller.store.delete(paths.queued(1, number))
        await one.put(50)
        await eventually(lambda: one.seen[-1] == 50)
        await eventually(one.is_empty)


@in_virtual_time
async def test_instructions_that_came_in_an_outage_are_applied_after_it() -> None:
    async with queued() as one:
        await one.put(1)
        await eventually(one.is_empty)
        events: list[SessionEvent] = []
        one.party.store.listen(events.append)
        one.party.store.disconnect()
        await one.put(2, 3)
        one.party.store.reconnect()
        await eventually(one.is_empty)
        assert one.seen == [1, 2, 3]
        assert SessionEvent.RECONNECTED in events
