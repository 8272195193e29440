"""The replicas of a broker, in one life after another (docs: kafka-design-v3; KIP-380)."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from broker_ctl.broker.replicas.instructions import Handled
from broker_ctl.broker.replicas.lifecycle import ReplicaAuthority, ReplicaDependencies, Replicas
from broker_ctl.codec import encode
from broker_ctl.coordination.membership.broker_ids import BrokerIds
from broker_ctl.core.partitions.values import LeaderAndIsr, LiveBroker
from broker_ctl.dataplane.webhook.replica_wire import IsrProposal
from broker_ctl.errors import AuthorityLost, DataPlaneUnreachable, Fenced
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.memory_store.transport import Fault, FaultPoint, MemoryRequest
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.records.partitions import decode_failed, decode_state
from broker_ctl.tasks import TaskScope
from tests.support.clusters.sessions import TICK_S, Party, parties
from tests.support.replicas.instructions import (
    elect_controllers,
    held,
    instruct,
    named,
    put_state,
    put_topic,
    replica_state,
    span_of,
    stop,
)
from tests.support.replicas.replica_plane import Call, InMemoryReplicas
from tests.support.time.waiting import eventually


class Keeping:
    """Broker 1 with its session, and a controller in another one."""

    def __init__(self, party: Party, controller: Party) -> None:
        self.party = party
        self.store = party.store
        self.controller = controller.store
        self.plane = InMemoryReplicas(1)
        self.authority = ReplicaAuthority()
        party.watcher.listen_grants(self.authority.on_grant)
        own = LiveBroker(1, 0, "h1", 6650, "a:1", "http://a:1")
        self.ids = BrokerIds(
            party.store, own, party.deletions, party.clock, TICK_S, rng=random.Random(1)
        )
        self.replicas = Replicas(
            ReplicaDependencies(
                store=party.store,
                ids=self.ids,
                plane=self.plane,
                authority=self.authority,
                instance_id=lambda: self.plane.heard_instance_id,
                poll_s=0.5,
                lag_time_s=30.0,
                rng=random.Random(1),
            )
        )

    @property
    def may_lead(self) -> bool:
        """Whether a leader here would take a write."""
        return self.authority.current().is_valid(self.party.clock.now_s())

    async def live(self, scope: TaskScope) -> int:
        """Begin the life of this session; its broker epoch."""
        await self.replicas.prepare(self.party.watcher.epoch)
        await self.replicas.enter()
        scope.start(self.replicas.run(), "replicas")
        return self.ids.epoch


@asynccontextmanager
async def keeping() -> AsyncIterator[Keeping]:
    async with parties(2) as (party, controller):
        await elect_controllers(controller.store, 1)
        yield Keeping(party, controller)


@in_virtual_time
async def test_a_broker_registers_once_its_data_plane_answers_and_not_before() -> None:
    async with keeping() as one, TaskScope("test") as scope:
        one.plane.is_silent = True
        scope.start(one.replicas.prepare(1), "prepare")
        await asyncio.sleep(3.0)
        assert await one.controller.exists(paths.broker(1)) is None
        assert not one.may_lead
        one.plane.is_silent = False
        await eventually(lambda: one.may_lead)
        epoch = await one.live(scope)
        assert (
            await one.replicas.handle(instruct(replica_state("t-0", 1), broker_epoch=epoch))
        ).errors == ()
        assert one.plane.led == {"t-0"}


@in_virtual_time
async def test_the_broker_process_applies_the_throttle_of_the_store() -> None:
    async with keeping() as one, TaskScope("test") as scope:
        config = {
            "leader.replication.throttled.rate": "9",
            "follower.replication.throttled.rate": "7",
        }
        path = paths.BROKER_DEFAULTS
        await one.controller.create(
            path, encode({"version": 1, "config": config}), make_parents=True
        )
        await one.replicas.throttle.start()
        await one.live(scope)
        await eventually(lambda: one.plane.throttle == 7)
        await one.controller.set(path, encode({"version": 1, "config": {**config, "x": "1"}}))
        await one.controller.set(path, encode({"version": 1, "config": dict.fromkeys(config, "0")}))
        await asyncio.sleep(1.0)
        assert one.plane.throttle == 7, "the last one that could be read"
        await one.controller.delete(path)
        await eventually(lambda: one.plane.throttle is None)
        await one.replicas.throttle.close()


@in_virtual_time
async def test_the_newest_controller_is_known_before_any_is_heard() -> None:
    async with keeping() as one, TaskScope("test") as scope:
        await elect_controllers(one.controller, 3)
        epoch = await one.live(scope)
        with pytest.raises(Fenced, match="controller epoch 2 is stale: 3 was seen"):
            await one.replicas.handle(instruct(broker_epoch=epoch, controller_epoch=2))
        await one.replicas.handle(instruct(broker_epoch=epoch, controller_epoch=3))


@in_virtual_time
async def test_instructions_come_through_the_queue_as_they_do_by_a_call() -> None:
    async with keeping() as one, TaskScope("test") as scope:
        epoch = await one.live(scope)
        path = paths.queued(1, 0)
        row = instruct(replica_state("t-0", 1, 3), broker_epoch=epoch).to_row()
        await one.controller.create(path, encode(row), make_parents=True)
        await eventually(lambda: one.plane.led == {"t-0"})
        await one.replicas.handle(instruct(stop("t-0", 3, is_deleted=True), broker_epoch=epoch))
        assert one.plane.held == {}


@in_virtual_time
async def test_a_leader_whose_session_expired_leads_nothing_in_the_next_session() -> None:
    async with keeping() as one, TaskScope("test") as scope:
        first = await one.live(scope)
        await one.replicas.handle(instruct(replica_state("t-0", 1, isr=[1]), broker_epoch=first))
        await eventually(lambda: one.may_lead)
        one.party.expire()
        await eventually(lambda: one.party.watcher.epoch == 2)
        await one.party.watcher.wait_authority()
        # There is a lease again, and an old leader that does not know that it is deposed.
        assert one.plane.led == {"t-0"}
        assert not one.may_lead
        one.replicas.on_session_end()
        await one.replicas.prepare(2)
        assert one.plane.led == set()
        assert one.may_lead
        with pytest.raises(AuthorityLost):
            await one.replicas.handle(instruct(replica_state("t-0", 1), broker_epoch=first))
        await scope.close()
        async with TaskScope("second") as again:
            second = await one.live(again)
            assert second > first
            with pytest.raises(Fenced):
                await one.replicas.handle(instruct(replica_state("t-0", 1), broker_epoch=first))
            # The same leader epoch: it leads on.
            await one.replicas.handle(
                instruct(replica_state("t-0", 1, isr=[1]), broker_epoch=second)
            )
            assert one.plane.led == {"t-0"}


@in_virtual_time
async def test_a_restarted_broker_process_begins_another_broker_epoch() -> None:
    async with keeping() as one, TaskScope("test") as scope:
        await put_topic(one.controller, "t", [1, 2])
        first = await one.live(scope)
        await one.replicas.handle(instruct(replica_state("t-0", 1, 4), broker_epoch=first))
        one.plane.restart()
        second = await eventually(lambda: one.ids.epoch if one.ids.epoch > first else 0)
        node = await one.controller.get(paths.broker(1))
        assert node is not None
        assert node.stat.czxid == second
        with pytest.raises(Fenced):
            await one.replicas.handle(instruct(replica_state("t-0", 1, 4), broker_epoch=first))
        full = instruct(replica_state("t-0", 1, 4), broker_epoch=second, is_full=True)
        assert (await one.replicas.handle(full)).errors == ()
        assert one.plane.led == {"t-0"}


@in_virtual_time
async def test_after_a_restart_strays_go_when_the_controller_says_all() -> None:
    async with keeping() as one, TaskScope("test") as scope:
        await put_topic(one.controller, "t", [1, 2], [2, 3])
        await put_topic(one.controller, "again", [1, 2], life=2)
        for each in (held("t-0", 2), held("t-1", 2), held("again-0", 8), held("gone-0", 1)):
            one.plane.held[each.partition] = each
        epoch = await one.live(scope)
        # Of a topic that has another id now: not even its first instruction finds it.
        assert sorted(map(str, one.plane.held)) == ["gone-0", "t-0", "t-1"]
        one.plane.calls.clear()
        full = instruct(
            replica_state("t-0", 2, 3),
            replica_state("again-0", 1, life=2),
            broker_epoch=epoch,
            is_full=True,
        )
        assert (await one.replicas.handle(full)).errors == ()
        assert one.plane.calls == [
            Call("delete", ("gone-0", "t-1")),
            Call("lead", ("again-0",)),
            Call("follow", ("t-0",)),
        ]


@in_virtual_time
async def test_failed_logs_are_published_before_registration_and_after_it() -> None:
    async with keeping() as one, TaskScope("test") as scope:
        one.plane.held[named("t-0")] = held("t-0")._replace(is_failed=True)
        epoch = await one.live(scope)

        async def published() -> list[str]:
            node = await one.controller.get(paths.failed(1))
            return [] if node is None else sorted(map(str, decode_failed(node)))

        # Before the broker registered: the controller elects with that in mind.
        assert await published() == ["t-0"]
        await one.replicas.handle(instruct(replica_state("t-1", 1), broker_epoch=epoch))
        one.plane.fail(named("t-1"))

        async def both() -> bool:
            return await published() == ["t-0", "t-1"]

        await eventually(both)
        one.plane.held[named("t-1")] = held("t-1")

        async def one_is_left() -> bool:
            return await published() == ["t-0"]

        await eventually(one_is_left)
        # The broker process may have given the replica up meanwhile.
        spans = [span_of(replica_state("t-1", 1), after="t-0")]
        differing = await one.replicas.handle(instruct(spans=spans, broker_epoch=epoch))
        assert differing == Handled(epoch, differing=(0,))


@in_virtual_time
async def test_proposals_are_settled_while_the_broker_is_registered() -> None:
    async with keeping() as one, TaskScope("test") as scope:
        state = await put_state(one.controller, "t-0", LeaderAndIsr(1, 4, (1,), 1))
        await one.live(scope)
        one.plane.proposals[named("t-0")] = IsrProposal(named("t-0"), 4, state.version, (1, 2))
        await eventually(lambda: one.plane.answers)
        assert one.plane.answers[0].is_granted
        counts = one.replicas.statistics()
        assert (counts.isr_expanded, counts.isr_shrunk, counts.isr_refused) == (1, 0, 0)


@in_virtual_time
async def test_proposals_from_before_a_removal_are_asked_for_again() -> None:
    async with keeping() as one, TaskScope("test") as scope:
        epoch = await one.live(scope)
        await one.replicas.handle(instruct(replica_state("t-1", 1), broker_epoch=epoch))
        state = await put_state(one.controller, "t-0", LeaderAndIsr(1, 4, (1,), 1))
        ask, asked = one.plane.isr_proposals, 0

        async def removing(lag_time_s: float, throttle: int | None = None) -> Sequence[IsrProposal]:
            nonlocal asked
            asked += 1
            proposals = await ask(lag_time_s, throttle)
            if asked == 1:
                removal = stop("t-1", is_deleted=True)
                await one.replicas.handle(instruct(removal, broker_epoch=epoch))
            return proposals

        one.plane.isr_proposals = removing  # type: ignore[method-assign]  # slow to answer
        one.plane.proposals[named("t-0")] = IsrProposal(named("t-0"), 4, state.version, (1, 2))
        await eventually(lambda: one.plane.answers)
        assert asked == 2
        assert one.plane.answers[0].is_granted


@in_virtual_time
async def test_a_data_plane_that_falls_silent_ends_no_life_by_itself() -> None:
    async with keeping() as one, TaskScope("test") as scope:
        epoch = await one.live(scope)
        one.plane.is_silent = True
        await asyncio.sleep(5.0)
        with pytest.raises(DataPlaneUnreachable):
            await one.replicas.handle(instruct(replica_state("t-0", 1), broker_epoch=epoch))
        one.plane.is_silent = False
        assert one.ids.epoch == epoch
        await one.replicas.handle(instruct(replica_state("t-0", 1), broker_epoch=epoch))


@in_virtual_time
async def test_a_broker_that_leaves_is_unregistered_and_refuses_instructions() -> None:
    async with keeping() as one, TaskScope("test") as scope:
        epoch = await one.live(scope)
        await one.replicas.handle(
            instruct(replica_state("t-0", 1), replica_state("t-1", 2), broker_epoch=epoch)
        )
        one.plane.calls.clear()
        await eventually(lambda: one.may_lead)
        await one.replicas.leave()
        assert await one.controller.exists(paths.broker(1)) is None
        assert one.plane.calls == [Call("stop", ("t-0",))]
        with pytest.raises(AuthorityLost):
            await one.replicas.handle(instruct(replica_state("t-0", 1), broker_epoch=epoch))
        # Bundles that are still to be handed over are served under it.
        assert one.may_lead


@in_virtual_time
async def test_a_broker_that_cannot_stop_its_leaders_loses_authority_before_it_leaves() -> None:
    async with keeping() as one, TaskScope("test") as scope:
        epoch = await one.live(scope)
        await one.replicas.handle(instruct(replica_state("t-0", 1), broker_epoch=epoch))
        await eventually(lambda: one.may_lead)
        one.plane.is_silent = True
        scope.start(one.replicas.leave(), "leave")

        async def is_gone() -> bool:
            return await one.controller.exists(paths.broker(1)) is None

        await eventually(is_gone)
        assert not one.may_lead


@in_virtual_time
async def test_a_broker_that_has_left_does_not_register_with_a_new_broker_process() -> None:
    async with keeping() as one, TaskScope("test") as scope:
        await one.live(scope)
        await one.replicas.leave()
        one.plane.restart()
        await asyncio.sleep(5.0)
        assert await one.controller.exists(paths.broker(1)) is None


@in_virtual_time
async def test_a_silent_process_gets_no_authority_while_its_last_lease_is_waited_for() -> None:
    async with keeping() as one, TaskScope("test") as scope:
        epoch = await one.live(scope)
        await eventually(lambda: one.may_lead)
        one.replicas.revoke()
        assert not one.may_lead
        # Nobody else leads before that lease is over.
        node = await one.controller.get(paths.broker(1))
        assert node is not None
        assert node.stat.czxid == epoch


@in_virtual_time
async def test_a_restarted_process_gets_no_instruction_of_the_epoch_before() -> None:
    async with keeping() as one, TaskScope("test") as scope:
        epoch = await one.live(scope)
        same = instruct(replica_state("t-0", 1, 4), broker_epoch=epoch)
        await one.replicas.handle(same)
        one.plane.restart()
        # Before this broker has looked: what the former has written to the ISR may be unknown.
        with pytest.raises(AuthorityLost):
            await one.replicas.handle(same)
        assert one.plane.led == set()


@in_virtual_time
async def test_a_restarted_process_that_is_not_noticed_yet_gets_no_instruction_either() -> None:
    async with keeping() as one, TaskScope("test") as scope:
        epoch = await one.live(scope)
        same = instruct(replica_state("t-0", 1, 4), broker_epoch=epoch)
        await one.replicas.handle(same)
        one.plane.restart(is_heard=False)
        with pytest.raises(DataPlaneUnreachable):
            await one.replicas.handle(same)
        assert one.plane.led == set()
        # Once it is heard of, another life is begun for it.
        one.plane.heard_instance_id = one.plane.instance_id
        await eventually(lambda: one.ids.epoch > epoch)
        await one.replicas.handle(instruct(replica_state("t-0", 1, 4), broker_epoch=one.ids.epoch))
        assert one.plane.led == {"t-0"}


@in_virtual_time
async def test_a_life_begins_after_all_that_the_former_one_wrote_to_an_isr() -> None:
    ensemble = MemoryEnsemble()
    restarts: list[bool] = []

    def mishap(request: MemoryRequest, point: FaultPoint) -> Fault | None:
        is_isr = [operation.path for operation in request.operations] == [state_path]
        if is_isr and point is FaultPoint.AFTER and not restarts:
            restarts.append(True)
            one.plane.restart()
            one.plane.proposals.clear()
            return Fault.CUT
        return None

    state_path = paths.leader_and_isr(named("t-0"))
    store = MemoryStore(ensemble, faults=mishap)
    party, other = Party(ensemble, store=store), Party(ensemble, 1)
    one = Keeping(party, other)
    async with TaskScope("test") as scope:
        for each in (party, other):
            await each.start()
        before = await put_state(one.controller, "t-0", LeaderAndIsr(1, 4, (1, 2), 3))
        first = await one.live(scope)
        one.plane.proposals[named("t-0")] = IsrProposal(named("t-0"), 4, before.version, (1, 2, 3))
        second = await eventually(lambda: one.ids.epoch if one.ids.epoch > first else 0)
        node = await one.controller.get(state_path)
        assert restarts
        assert node is not None
        assert decode_state(node).isr == (1, 2, 3)
        assert node.stat.mzxid < second
    for each in (party, other):
        await each.close()
