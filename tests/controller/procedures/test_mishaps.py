"""Writes, reads and brokers that fail half-way, and the recovery of the controller.

Docs: kafka-failure-kinds, kafka-elections.
"""

import asyncio
import random
from collections.abc import Sequence

from broker_ctl.controller.admin.operations import ControllerOperations
from broker_ctl.controller.controller import BuildAdmin
from broker_ctl.controller.procedures.procedure import Procedure
from broker_ctl.core.partitions.values import DEFAULT_RULES, NO_LEADER, LeaderAndIsr, TopicRules
from broker_ctl.errors import OperationTimeout
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths as partition_paths
from broker_ctl.store.interface import (
    Create,
    Delete,
    MetadataStore,
    Operation,
    Result,
    SetData,
    Stat,
    Versioned,
)
from broker_ctl.store.records.partitions import (
    decode_state,
    encode_failed,
    encode_request,
    encode_state,
)
from tests.support.clusters.partition_cluster import (
    PartitionCluster,
    Running,
    partition,
    partition_cluster,
)
from tests.support.clusters.partition_procedures import admin_of, catching_up, procedures
from tests.support.time.waiting import eventually
from tests.support.zookeeper.faulty_store import TryingStore, led_through, lose_reply

P0 = partition("t", 0)


async def settled(running: Running) -> None:
    await eventually(lambda: running.value("offline") == 0 and not len(running.term.queue))


# Batches.


@in_virtual_time
async def test_many_nodes_that_are_gone_keep_none_of_the_others_from_a_leader() -> None:
    async with partition_cluster(1, 2) as cluster:
        running, store = await led_through(cluster)
        await cluster.create_topic("a", *[(1, 2)] * 30)
        await cluster.create_topic("t", (1, 2), (1, 2))
        await eventually(lambda: len(running.term.context.states) == 32)
        await settled(running)

        async def delete(_: Sequence[Operation]) -> None:
            store.before = None
            for number in range(30):
                gone = partition_paths.leader_and_isr(partition("a", number))
                await cluster.operator.delete(gone)

        store.before = delete
        await cluster.stop_broker(1)
        await cluster.led(P0, 2)
        await cluster.led(partition("t", 1), 2)


@in_virtual_time
async def test_a_topic_that_vanishes_keeps_no_other_new_one_from_its_leaders() -> None:
    async with partition_cluster() as cluster:
        running, store = await led_through(cluster)
        await cluster.create_topic("a", *[(1, 2)] * 30)
        await cluster.create_topic("t", (1, 2), (1, 2))
        await eventually(lambda: running.value("offline") == 32)

        async def vanish(_: Sequence[Operation]) -> None:
            store.before = None
            await cluster.operator.delete(partition_paths.topic("a"))

        store.before = vanish
        await cluster.start_broker(1)
        await cluster.led(P0, 1)
        await cluster.led(partition("t", 1), 1)
        await settled(running)


@in_virtual_time
async def test_a_first_state_that_may_not_have_been_written_is_written_again() -> None:
    async with partition_cluster(1, 2) as cluster:
        _, store = await led_through(cluster)

        async def lose(operations: Sequence[Operation]) -> None:
            if any(isinstance(operation, Create) for operation in operations):
                store.before = None
                await lose_reply(operations)  # the request was never sent

        store.before = lose
        await cluster.create_topic("t", (1, 2))
        await cluster.led(P0, 1)


@in_virtual_time
async def test_an_election_whose_reply_is_lost_is_in_the_journal_and_counted() -> None:
    async with partition_cluster(1, 2) as cluster:
        running, store = await led_through(cluster)
        await cluster.create_topic("t", (1, 2), rules=TopicRules(is_unclean_allowed=True))
        await cluster.led(P0, 1)
        await cluster.write_isr(P0, 1)
        await eventually(lambda: running.term.context.states[P0].isr == (1,))

        async def lose(operations: Sequence[Operation]) -> None:
            if any(isinstance(operation, SetData) for operation in operations):
                store.after = None
                await lose_reply(operations)

        store.after = lose
        await cluster.stop_broker(1)
        assert (await cluster.led(P0, 2)).is_recovering
        await eventually(lambda: running.value("unclean_elections") == 1)
        assert [row.leader for _, row in running.journal.rows] == [1, 2]


@in_virtual_time
async def test_only_elections_out_of_the_isr_count_as_unclean() -> None:
    async with partition_cluster(1, 2) as cluster:
        running = await cluster.lead()
        await cluster.create_topic("t", (1, 2), rules=TopicRules(is_unclean_allowed=True))
        await cluster.led(P0, 1)
        await cluster.write_isr(P0, 1)
        await eventually(lambda: running.term.context.states[P0].isr == (1,))
        await cluster.stop_broker(1)
        await cluster.led(P0, 2)
        # After the unclean election its records count: electing it again loses none.
        await cluster.stop_broker(2)
        await cluster.led(P0, NO_LEADER)
        await cluster.start_broker(2)
        await cluster.led(P0, 2)
        await settled(running)
        assert running.value("unclean_elections") == 1


# Events that fail half-way.


class OnceUnread(TryingStore):
    """Does not answer when paths with this end are asked for, once."""

    end = ""

    async def get_many(self, paths: Sequence[str]) -> list[Versioned | None]:
        if self.end and any(path.endswith(self.end) for path in paths):
            self.end = ""
            raise OperationTimeout("no answer")
        return await super().get_many(paths)


@in_virtual_time
async def test_a_new_topic_is_led_though_reading_its_states_failed_at_first() -> None:
    async with partition_cluster(1, 2) as cluster:
        _, store = await led_through(cluster, OnceUnread)
        assert isinstance(store, OnceUnread)
        store.end = "/leaderAndISR"
        await cluster.create_topic("t", (1, 2))
        await cluster.led(P0, 1)
        assert not store.end


class Heard:
    """`Procedure` that records the brokers that it is notified of."""

    def __init__(self) -> None:
        self.dead: list[set[int]] = []
        self.new: list[set[int]] = []
        self.looks = 0

    def __getattr__(self, name: str) -> object:
        async def nothing(*_: object) -> None: ...

        return nothing

    async def on_brokers_changed(self, changed: object) -> None:
        self.looks += 1
        self.dead.append(set(changed.dead | changed.bounced))  # type: ignore[attr-defined]
        self.new.append(set(changed.new | changed.bounced))  # type: ignore[attr-defined]


def heard_by(heard: Heard) -> BuildAdmin:
    class HeardBy(ControllerOperations):
        @property
        def procedures(self) -> Sequence[Procedure]:
            return (heard,)  # type: ignore[return-value]

    return HeardBy


@in_virtual_time
async def test_procedures_are_notified_of_dead_brokers_though_the_first_failover_failed() -> None:
    heard = Heard()
    async with partition_cluster(1, 2, 3) as cluster:
        running, store = await led_through(cluster, build_admin=heard_by(heard))
        await cluster.create_topic("t", (1, 2))
        await cluster.led(P0, 1)
        await settled(running)

        failing: list[bool] = []

        async def fail(_: Sequence[Operation]) -> None:
            store.before = None
            failing.append(True)
            raise ValueError("a fault of ours")

        store.before = fail
        await cluster.stop_broker(1)
        await cluster.led(P0, 2)
        await eventually(lambda: heard.dead)
        assert failing
        assert heard.dead == [{1}]


# Replicas that cannot serve.


@in_virtual_time
async def test_a_replica_that_failed_before_its_broker_was_seen_is_not_elected() -> None:
    async with partition_cluster(1, 2) as cluster:
        await cluster.lead()
        await cluster.create_topic("t", (1, 2))
        await cluster.led(P0, 1)
        await cluster.fail(1, encode_failed([P0]))
        await cluster.led(P0, 2)
        # The same session registers again: what it said of its disk still stands.
        await cluster.bounce_broker(1)
        await eventually(lambda: cluster.receivers[1].leaders().get(P0) == 2)
        await cluster.write_isr(P0, 1, 2)
        await cluster.stop_broker(2)
        led = await eventually(lambda: _without_leader(cluster))
        assert led.leader == NO_LEADER


async def _without_leader(cluster: PartitionCluster) -> LeaderAndIsr | None:
    state = await cluster.state(P0)
    return state if state is not None and state.leader != 2 else None


@in_virtual_time
async def test_a_broker_that_is_leaving_keeps_what_could_only_be_led_out_of_the_isr() -> None:
    async with partition_cluster(1, 2, 3) as cluster:
        running = await cluster.lead()
        await cluster.create_topic("t", (1, 2, 3), rules=TopicRules(is_unclean_allowed=True))
        await cluster.led(P0, 1)
        await cluster.write_isr(P0, 1, 3)
        await eventually(lambda: running.term.context.states[P0].isr == (1, 3))
        running.term.context.leaving.add(1)
        await cluster.stop_broker(3)

        async def alone() -> LeaderAndIsr | None:
            state = await cluster.state(P0)
            return state if state is not None and state.leader_epoch > 0 else None

        state = await eventually(alone)
        assert (state.leader, state.isr) == (1, (1,))
        assert running.value("unclean_elections") == 0


# Invariant I9: a leader was in sync, also when ISRs change between read and write.


class Pushing(TryingStore):
    """Leaders change ISRs between what the controller has read and what it writes.

    Attributes:
        elected: for each state that was overwritten: its ISR, and the leader written over it.
    """

    def __init__(self, store: MetadataStore) -> None:
        super().__init__(store)
        self.rng = random.Random(9)
        self.pushed = 0
        self.elected: list[tuple[tuple[int, ...], int]] = []

    async def multi(self, operations: Sequence[Operation]) -> tuple[Result, ...]:
        writes = [each for each in operations if isinstance(each, SetData)]
        stood = {each.path: await self._push(each.path) for each in writes}
        results = await self._inner.multi(operations)
        for write, stat in zip(operations, results, strict=True):
            if isinstance(write, SetData) and isinstance(stat, Stat):
                now = decode_state(Versioned(write.path, write.data, stat))
                self.elected.append((stood[write.path].isr, now.leader))
        return results

    async def _push(self, path: str) -> LeaderAndIsr:
        """Remove a follower with probability 0.3, as a leader does; the state after that."""
        node = await self._inner.get(path)
        assert node is not None
        state = decode_state(node)
        followers = [each for each in state.isr if each != state.leader]
        if state.leader != NO_LEADER and followers and self.rng.random() < 0.3:
            left = tuple(each for each in state.isr if each != self.rng.choice(followers))
            self.pushed += 1
            await self._inner.set(path, encode_state(state._replace(isr=left)), state.version)
            return state._replace(isr=left)
        return state


@in_virtual_time
async def test_an_elected_leader_is_in_sync_by_the_store_however_old_the_cache_is() -> None:
    async with partition_cluster(1, 2, 3, 4) as cluster:
        running, store = await led_through(cluster, Pushing)
        assert isinstance(store, Pushing)
        await cluster.create_topic("t", *[(1, 2, 3, 4), (2, 3, 4, 1), (3, 4, 1, 2)] * 10)
        context = running.term.context
        await eventually(lambda: len(context.states) == 30)
        for broker in (1, 2, 3):
            await cluster.stop_broker(broker)
            await eventually(lambda: running.value("brokers") == len(cluster.stores))
            await eventually(lambda: not len(running.term.queue))
        assert store.pushed > 10
        assert len(store.elected) > 30
        assert any(leader == NO_LEADER for _, leader in store.elected)
        for in_sync, leader in store.elected:
            assert leader in {NO_LEADER, *in_sync}


# What operators ask for.


@in_virtual_time
async def test_a_topic_made_again_is_left_alone_though_the_end_of_the_first_was_in_doubt() -> None:
    async with catching_up(1, 2) as (cluster, _):
        running, store = await led_through(cluster, build_admin=procedures())
        admin = admin_of(running)
        await admin.create_topic("t", {0: (1, 2)}, DEFAULT_RULES, is_dry_run=False)

        async def lose(operations: Sequence[Operation]) -> None:
            if Delete(partition_paths.deletion("t")) in operations:
                store.after = None
                await lose_reply(operations)

        store.after = lose
        await admin.delete_topic("t", is_dry_run=False)
        await eventually(lambda: store.after is None)
        await eventually(lambda: "t" not in running.term.context.deleting)
        await admin.create_topic("t", {0: (2, 1)}, DEFAULT_RULES, is_dry_run=False)
        await cluster.led(P0, 2)
        await asyncio.sleep(5.0)
        assert await cluster.state(P0) == running.term.context.states[P0]
        assert [row["topic"] for row in admin.topics()] == ["t"]


@in_virtual_time
async def test_a_broker_may_not_stop_where_the_isr_has_shrunk_since_it_was_read() -> None:
    async with partition_cluster(1, 2, 3) as cluster:
        running, store = await led_through(cluster, build_admin=procedures())
        admin = admin_of(running)
        rules = TopicRules(min_isr=2)
        await admin.create_topic("t", {0: (1, 2, 3)}, rules, is_dry_run=False)

        async def shrink(_: Sequence[Operation]) -> None:
            store.before = None
            await cluster.write_isr(P0, 1, 2)

        store.before = shrink
        reply = await admin.shut_down(2, cluster.receivers[2].epoch, is_forced=False)
        assert reply["is_done"] is False
        assert "t-0 would have 1 in sync" in str(reply["reason"])
        assert (await cluster.led(P0, 1)).isr == (1, 2)
        assert not running.term.context.leaving


@in_virtual_time
async def test_a_reassignment_goes_on_when_its_target_acknowledges_again() -> None:
    async with catching_up(1, 2, 3) as (cluster, catching):
        running = await cluster.lead(procedures())
        admin = admin_of(running)
        await admin.create_topic("t", {0: (1,)}, DEFAULT_RULES, is_dry_run=False)
        catching.lagging.add(2)
        await admin.reassign({P0: (2,)}, is_dry_run=False)
        await eventually(lambda: P0 in cluster.receivers[2].replicas)
        cluster.receivers[2].is_deaf = True
        await admin.create_topic("u", {0: (1, 2)}, DEFAULT_RULES, is_dry_run=False)
        await eventually(lambda: running.value("silent_brokers") == 1)
        await cluster.write_isr(P0, 1, 2)
        await asyncio.sleep(1.0)
        assert (await cluster.led(P0, 1)).isr == (1, 2)
        cluster.receivers[2].is_deaf = False
        await cluster.led(P0, 2)
        await eventually(lambda: not running.term.context.reassigning)


@in_virtual_time
async def test_a_reassignment_sees_an_isr_that_was_written_just_before_an_election() -> None:
    async with catching_up(1, 2, 3) as (cluster, catching):
        running, store = await led_through(cluster, build_admin=procedures())
        admin = admin_of(running)
        await admin.create_topic("t", {0: (1, 3)}, DEFAULT_RULES, is_dry_run=False)
        catching.lagging |= {2, 3}
        await admin.reassign({P0: (2,)}, is_dry_run=False)
        await eventually(lambda: P0 in cluster.receivers[2].replicas)

        async def join(_: Sequence[Operation]) -> None:
            store.before = None
            await cluster.write_isr(P0, 1, 2, 3)

        store.before = join
        await admin.shut_down(3, cluster.receivers[3].epoch, is_forced=True)
        await eventually(lambda: not running.term.context.reassigning)


class OnceUnlisted(TryingStore):
    """Does not list the children of a path, once."""

    path = ""

    async def children(self, path: str) -> list[str]:
        if path == self.path:
            self.path = ""
            raise OperationTimeout(f"{path}: no answer")
        return await self._inner.children(path)


@in_virtual_time
async def test_a_request_is_carried_out_though_reading_it_failed_at_first() -> None:
    async with catching_up(1, 2) as (cluster, _):
        running, store = await led_through(cluster, OnceUnlisted, procedures())
        assert isinstance(store, OnceUnlisted)
        await admin_of(running).create_topic("t", {0: (1,)}, DEFAULT_RULES, is_dry_run=False)
        await eventually(lambda: not len(running.term.queue))
        store.path = partition_paths.REASSIGNED
        path = partition_paths.reassigned(P0)
        await cluster.operator.create(path, encode_request((2,)), make_parents=True)
        await cluster.led(P0, 2)
        assert not store.path
