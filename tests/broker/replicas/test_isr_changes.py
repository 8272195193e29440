"""Leaders change the ISR, by compare-and-set, and hear what became of it (docs: kafka-isr)."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from broker_ctl.broker.replicas.lifecycle import IsrChanges
from broker_ctl.core.partitions.values import LeaderAndIsr
from broker_ctl.dataplane.webhook.replica_wire import IsrAnswer, IsrProposal
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.memory_store.transport import Fault, FaultPoint, MemoryRequest, RequestKind
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths as partition_paths
from broker_ctl.store.interface import Stat, Versioned
from broker_ctl.store.records.partitions import decode_state
from tests.support.replicas.instructions import named, put_state
from tests.support.replicas.replica_plane import InMemoryReplicas

LAG_S = 12.5
STATE = LeaderAndIsr(1, 4, (1, 2), 3, is_recovering=True)


class Leader:
    """Broker 1, the leader.

    Attributes:
        ambush: what the controller writes right before the next write of the leader.
        removals: of replicas on this broker.
        cuts: whether the next answer to a write is lost, and all others until it is cleared.
    """

    def __init__(self, ensemble: MemoryEnsemble) -> None:
        self.plane = InMemoryReplicas(1)
        self.store = MemoryStore(ensemble, faults=self._mishap)
        self.controller = MemoryStore(ensemble)
        self.removals = 0
        self.isr = IsrChanges(self.store, self.plane, 1, LAG_S, removals=lambda: self.removals)
        self.cuts = 0

    def _mishap(self, request: MemoryRequest, point: FaultPoint) -> Fault | None:
        if self.cuts and request.kind is RequestKind.SET and point is FaultPoint.AFTER:
            self.cuts -= 1
            return Fault.CUT
        return None

    def proposal(self, partition: str, isr: tuple[int, ...], version: int, epoch: int = 4) -> None:
        self.plane.proposals[named(partition)] = IsrProposal(named(partition), epoch, version, isr)

    async def stands(self, partition: str) -> LeaderAndIsr:
        node = await self.controller.get(partition_paths.leader_and_isr(named(partition)))
        assert node is not None
        return decode_state(node)


@asynccontextmanager
async def leading() -> AsyncIterator[Leader]:
    one = Leader(MemoryEnsemble())
    for store in (one.store, one.controller):
        await store.start()
        await store.wait_connected()
    yield one
    for store in (one.store, one.controller):
        await store.close()


@in_virtual_time
async def test_the_leader_changes_the_isr_and_nothing_else() -> None:
    async with leading() as one:
        before = await put_state(one.controller, "t-0", STATE)
        one.proposal("t-0", (1, 2, 3), before.version)
        assert await one.isr.settle() == 1
        assert one.plane.lag_time_s == LAG_S
        after = await one.stands("t-0")
        # But that it recovers: who is in sync has all that there is (KIP-704).
        assert before.is_recovering
        recovered = before._replace(is_recovering=False)
        assert after == recovered._replace(isr=(1, 2, 3), version=before.version + 1)
        assert one.plane.answers == [IsrAnswer(named("t-0"), after, is_granted=True)]
        one.proposal("t-0", (1,), after.version)
        await one.isr.settle()
        assert (await one.stands("t-0")).isr == (1,)
        assert (one.isr.expanded, one.isr.shrunk, one.isr.refused) == (1, 1, 0)
        assert await one.isr.settle() == 0


@in_virtual_time
async def test_a_leader_that_the_controller_has_overtaken_is_answered_with_the_new_state() -> None:
    async with leading() as one:
        first = await put_state(one.controller, "t-0", STATE)
        now = await put_state(one.controller, "t-0", STATE._replace(leader=2, leader_epoch=5))
        one.proposal("t-0", (1, 2, 3), first.version)
        await one.isr.settle()
        assert await one.stands("t-0") == now
        assert one.plane.answers == [IsrAnswer(named("t-0"), now, is_granted=False)]
        assert one.isr.refused == 1


@in_virtual_time
async def test_a_leader_that_is_overtaken_between_read_and_write_gets_the_new_state_too() -> None:
    async with leading() as one:
        before = await put_state(one.controller, "t-0", STATE)
        now = before._replace(leader_epoch=5, isr=(1,), version=before.version + 1)
        write = one.store.set

        async def overtaken(path: str, data: bytes, version: int = -1) -> Stat:
            await put_state(one.controller, "t-0", now)
            return await write(path, data, version)

        one.store.set = overtaken  # type: ignore[method-assign]  # the controller is quicker
        one.proposal("t-0", (1, 2, 3), before.version)
        await one.isr.settle()
        assert await one.stands("t-0") == now
        assert one.plane.answers == [IsrAnswer(named("t-0"), now, is_granted=False)]


@in_virtual_time
async def test_after_a_removal_a_proposal_may_be_of_a_former_topic_and_is_not_written() -> None:
    async with leading() as one:
        before = await put_state(one.controller, "t-0", STATE)
        read = one.store.get_many

        async def removing(paths: Sequence[str]) -> list[Versioned | None]:
            # The topic was made again: same leader, same epoch, same version.
            nodes = await read(paths)
            one.removals += 1
            return nodes

        one.store.get_many = removing  # type: ignore[method-assign]  # deleted meanwhile
        one.proposal("t-0", (1, 2, 3), before.version)
        assert await one.isr.settle() == 1
        assert await one.stands("t-0") == before
        assert one.plane.answers == []
        one.store.get_many = read  # type: ignore[method-assign]  # as before
        await one.isr.settle()
        assert (await one.stands("t-0")).isr == (1, 2, 3)
        assert len(one.plane.answers) == 1


@in_virtual_time
async def test_leaders_get_no_state_that_was_read_before_a_removal() -> None:
    async with leading() as one:
        before = await put_state(one.controller, "t-0", STATE)
        write = one.store.set

        async def removing(path: str, data: bytes, version: int = -1) -> Stat:
            stat = await write(path, data, version)
            one.removals += 1
            return stat

        one.store.set = removing  # type: ignore[method-assign]  # deleted right after it
        one.proposal("t-0", (1, 2, 3), before.version)
        await one.isr.settle()
        assert one.plane.answers == []
        await one.isr.settle()
        assert [answer.is_granted for answer in one.plane.answers] == [True]


@in_virtual_time
async def test_a_write_whose_answer_is_lost_was_done_once_and_the_leader_hears_of_it() -> None:
    async with leading() as one:
        before = await put_state(one.controller, "t-0", STATE)
        one.proposal("t-0", (1, 2, 3), before.version)
        one.cuts = 1
        await one.isr.settle()
        after = await one.stands("t-0")
        assert after.version == before.version + 1
        assert one.plane.answers == [IsrAnswer(named("t-0"), after, is_granted=True)]


@in_virtual_time
async def test_a_proposal_that_is_granted_already_is_found_out_by_the_next_look() -> None:
    async with leading() as one:
        before = await put_state(one.controller, "t-0", STATE)
        # Written by this leader, who never heard of it.
        now = await put_state(one.controller, "t-0", before._replace(isr=(1, 2, 3)))
        one.proposal("t-0", (1, 2, 3), before.version)
        await one.isr.settle()
        assert await one.stands("t-0") == now
        assert one.plane.answers == [IsrAnswer(named("t-0"), now, is_granted=True)]


@in_virtual_time
async def test_a_proposal_of_a_broker_that_does_not_lead_by_the_store_is_refused() -> None:
    async with leading() as one:
        now = await put_state(one.controller, "t-0", STATE._replace(leader=2))
        one.proposal("t-0", (1, 2, 3), now.version)
        await one.isr.settle()
        assert await one.stands("t-0") == now
        assert one.plane.answers[0].is_granted is False


@in_virtual_time
async def test_a_leader_that_would_leave_itself_out_is_refused() -> None:
    async with leading() as one:
        now = await put_state(one.controller, "t-0", STATE)
        one.proposal("t-0", (2,), now.version)
        await one.isr.settle()
        assert await one.stands("t-0") == now
        assert one.plane.answers[0].is_granted is False


@in_virtual_time
async def test_a_server_that_lags_is_asked_again_and_the_leader_gets_no_old_state() -> None:
    async with leading() as one:
        now = await put_state(one.controller, "t-0", STATE)
        # The leader knows a version that this server does not have yet.
        one.proposal("t-0", (1, 2, 3), now.version + 1)
        await one.isr.settle()
        assert one.plane.answers == []
        await put_state(one.controller, "t-0", STATE)
        await one.isr.settle()
        assert one.plane.answers[0].is_granted


@in_virtual_time
async def test_one_bad_partition_does_not_keep_the_others_from_being_written() -> None:
    async with leading() as one:
        for number in range(600):
            await put_state(one.controller, f"t-{number}", STATE)
            one.proposal(f"t-{number}", (1, 2, 3), 0)
        bad = partition_paths.leader_and_isr(named("t-300"))
        await one.controller.set(bad, b"{")
        one.proposal("gone-0", (1, 2, 3), 0)
        assert await one.isr.settle() == 601
        granted = [str(answer.partition) for answer in one.plane.answers if answer.is_granted]
        assert len(granted) == 599
        assert {str(each.partition) for each in one.plane.answers if each.state is None} == {
            "t-300",
            "gone-0",
        }
