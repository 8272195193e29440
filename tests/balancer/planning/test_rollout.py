"""A rollout, as far as leaders carry it out; the test is the driver."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from broker_ctl.balancer.admin.rollout import RolloutRequest
from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.balancer.planning.rollout.runner import RolloutDirectives
from broker_ctl.core.cluster.directives import AuditInfo, Drain, Pause
from broker_ctl.core.model.names import Ring
from broker_ctl.core.rollout.forecast import RolloutScope
from broker_ctl.core.rollout.rollout import Rollout, RolloutTerms
from broker_ctl.errors import ConnectionLoss, OrderConflict, RolloutMissing
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import CreateMode, MetadataStore
from broker_ctl.store.records.broker_ctl import Registration
from broker_ctl.store.records.directives import PauseRecord
from broker_ctl.tasks import wait_until
from tests.support.clusters.in_memory_broker import CAPACITY_BYTES_S, even_traffic
from tests.support.clusters.leader_cluster import NAMESPACE, QUICK, LeaderCluster, running_cluster
from tests.support.clusters.leading_balancers import leading_at
from tests.support.time.waiting import eventually

A, B, C, D = "a:8080", "b:8080", "c:8080", "d:8080"
# One bundle after the other at first: a drain takes several rounds.
RULES = replace(QUICK, shedding=None, budgets=replace(QUICK.budgets, max_moves_per_broker=1))
RING = Ring.even(NAMESPACE, 12)
REQUEST = RolloutRequest(RolloutScope(), RolloutTerms(gate_timeout_s=60), "anna", "update")


@asynccontextmanager
async def laden_cluster(usage_ratio: float = 0.3) -> AsyncIterator[LeaderCluster]:
    """Three brokers with four bundles each, which use that much of them."""
    bytes_s = CAPACITY_BYTES_S * usage_ratio / 4
    async with running_cluster(A, B, C, traffic=lambda _: even_traffic(bytes_s)) as cluster:
        cluster.clock, cluster.rules = LoopClock(), RULES
        await cluster.create_namespace(12)
        for number, bundle in enumerate(RING.bundles):
            await cluster.brokers[(A, B, C)[number % 3]].acquire(bundle)
        await cluster.publish()
        yield cluster


def some(*brokers: str) -> RolloutRequest:
    return replace(REQUEST, scope=RolloutScope(brokers))


async def row_of(balancer: LoadBalancer) -> dict[str, Any]:
    return await balancer.operations.rollout.current()


def states(row: dict[str, Any]) -> dict[str, str]:
    return {broker["broker"]: broker["state"] for broker in row["brokers"]}


async def wait_state(balancer: LoadBalancer, broker_id: str, state: str) -> None:
    async def has_it() -> bool:
        return states(await row_of(balancer))[broker_id] == state

    await until(has_it)


async def wait_rollout(balancer: LoadBalancer, state: str) -> dict[str, Any]:
    async def has_it() -> bool:
        return bool((await row_of(balancer))["state"] == state)

    await until(has_it)
    return await row_of(balancer)


async def until(condition: Any) -> None:
    assert await wait_until(condition, 900.0)


async def restart(cluster: LeaderCluster, balancer: LoadBalancer, broker_id: str) -> None:
    """What the driver does with a broker that is empty."""
    rollout = balancer.operations.rollout
    await wait_state(balancer, broker_id, "empty")
    assert not cluster.brokers[broker_id].serving
    assert broker_id in cluster.brokers[broker_id].directives.drains
    await rollout.note_restart(broker_id, "restart_began", "")
    await cluster.kill(broker_id)
    await cluster.add(broker_id)
    await rollout.note_restart(broker_id, "restarted", "")
    await rollout.note_restart(broker_id, "healthy", "")
    await wait_state(balancer, broker_id, "done")


async def pause_of(store: MetadataStore) -> Pause | None:
    node = await store.get(paths.PAUSE)
    return None if node is None else PauseRecord.decode(node.path, node.data).pause


def loads(cluster: LeaderCluster) -> dict[str, int]:
    return {name: len(broker.serving) for name, broker in sorted(cluster.brokers.items())}


@in_virtual_time
async def test_brokers_restart_empty_and_the_cluster_ends_as_it_was() -> None:
    async with laden_cluster() as cluster, leading_at(cluster, A) as balancer:
        begun = await balancer.operations.rollout.begin(some(B, C))
        assert (begun["state"], begun["by"]) == ("running", "anna")
        await restart(cluster, balancer, B)
        pause = await pause_of(cluster.brokers[A].store)
        assert pause is not None
        assert pause.order.who == f"rollout {begun['id']}"
        await restart(cluster, balancer, C)
        row = await wait_rollout(balancer, "done")
        store = cluster.brokers[A].store
        await eventually(lambda: not cluster.brokers[A].directives.drains)
        assert await pause_of(store) is None
        assert sum(loads(cluster).values()) == 12
        assert min(loads(cluster).values()) >= 3
        assert row["moves"] <= row["least_moves"] + 2
        assert cluster.serving_checker.faults == []


@in_virtual_time
async def test_another_leader_continues_with_the_next_broker() -> None:
    async with laden_cluster() as cluster:
        async with leading_at(cluster, A) as balancer:
            await balancer.operations.rollout.begin(some(B, C))
            await restart(cluster, balancer, B)
        async with leading_at(cluster, B) as balancer:
            assert states(await row_of(balancer))[B] == "done"
            await restart(cluster, balancer, C)
            await wait_rollout(balancer, "done")
            assert cluster.serving_checker.faults == []


@in_virtual_time
async def test_what_a_rollout_began_ends_if_its_node_is_deleted() -> None:
    """Found by a schedule that deletes nodes: the balancing stayed paused, and nobody said why."""
    async with laden_cluster() as cluster:
        store, directives = cluster.brokers[C].store, cluster.brokers[C].directives
        async with leading_at(cluster, A) as balancer:
            await balancer.operations.drain(C, "bob", "disk")
            await balancer.operations.rollout.begin(some(B))
            await wait_state(balancer, B, "empty")
        await store.delete(paths.ROLLOUT)
        assert await pause_of(store) is not None
        async with leading_at(cluster, A):
            await eventually(lambda: B not in directives.drains)
            await eventually(lambda: directives.pause is None)
            # An operator's stays.
            assert C in directives.drains


@in_virtual_time
async def test_a_rollout_of_a_newer_release_keeps_what_it_began() -> None:
    async with laden_cluster() as cluster:
        store = cluster.brokers[C].store
        async with leading_at(cluster, A) as balancer:
            await balancer.operations.rollout.begin(some(B))
            await wait_state(balancer, B, "empty")
        await store.set(paths.ROLLOUT, b'{"version":99}')
        async with leading_at(cluster, A):
            await asyncio.sleep(60.0)
            assert await pause_of(store) is not None
            assert B in cluster.brokers[C].directives.drains


@in_virtual_time
async def test_a_restart_that_no_driver_reported_is_seen_by_the_new_process() -> None:
    async with laden_cluster() as cluster, leading_at(cluster, A) as balancer:
        rollout = balancer.operations.rollout
        await rollout.begin(some(B))
        await wait_state(balancer, B, "empty")
        await rollout.note_restart(B, "restart_began", "")
        # The driver is killed after its command.
        await cluster.kill(B)
        await cluster.add(B)
        await wait_state(balancer, B, "checking")
        await rollout.note_restart(B, "restarted", "")
        await rollout.note_restart(B, "healthy", "")
        await wait_rollout(balancer, "done")


@in_virtual_time
async def test_a_gate_that_stays_closed_stops_the_rollout_and_balancing_goes_on() -> None:
    async with laden_cluster() as cluster, leading_at(cluster, A) as balancer:
        rollout = balancer.operations.rollout
        await rollout.begin(some(B, C))
        await wait_state(balancer, B, "empty")
        await rollout.note_restart(B, "restart_began", "")
        # The command has ended, but the process is the old one.
        await rollout.note_restart(B, "restarted", "")
        row = await wait_rollout(balancer, "stopped")
        assert "the one from before the restart" in row["note"]
        await eventually(lambda: not cluster.brokers[A].directives.drains)
        assert await pause_of(cluster.brokers[A].store) is None
        await rollout.act("resume", "bert", "")
        await restart(cluster, balancer, B)
        await restart(cluster, balancer, C)
        await wait_rollout(balancer, "done")


@in_virtual_time
async def test_a_restart_command_that_fails_stops_the_rollout_with_its_words() -> None:
    async with laden_cluster() as cluster, leading_at(cluster, A) as balancer:
        rollout = balancer.operations.rollout
        await rollout.begin(some(B))
        await wait_state(balancer, B, "empty")
        await rollout.note_restart(B, "restart_began", "")
        row = await rollout.note_restart(B, "failed", "exit code 3")
        assert (row["state"], row["note"]) == ("stopped", f"{B}: exit code 3")
        assert states(row)[B] == "failed"


@in_virtual_time
async def test_nothing_stays_drained_for_a_driver_that_is_gone() -> None:
    async with laden_cluster() as cluster, leading_at(cluster, A) as balancer:
        rollout = balancer.operations.rollout
        await rollout.begin(some(B))
        await wait_state(balancer, B, "empty")
        row = await wait_rollout(balancer, "stopped")
        assert row["note"] == f"{B}: its driver has said nothing for 60 s"
        await eventually(lambda: not cluster.brokers[A].directives.drains)
        assert await pause_of(cluster.brokers[A].store) is None
        await rollout.act("resume", "bert", "")
        await restart(cluster, balancer, B)
        await wait_rollout(balancer, "done")


@in_virtual_time
async def test_a_restart_may_take_longer_than_the_patience_while_its_driver_speaks() -> None:
    async with laden_cluster() as cluster, leading_at(cluster, A) as balancer:
        rollout = balancer.operations.rollout
        await rollout.begin(some(B))
        await wait_state(balancer, B, "empty")
        for _ in range(5):
            await rollout.note_restart(B, "restart_began", "")
            await asyncio.sleep(40)
        assert states(await row_of(balancer))[B] == "restarting"
        await wait_rollout(balancer, "stopped")


@in_virtual_time
async def test_a_report_of_the_process_before_opens_no_gate() -> None:
    async with laden_cluster() as cluster, leading_at(cluster, A) as balancer:
        rollout = balancer.operations.rollout
        await rollout.begin(some(B))
        await wait_state(balancer, B, "empty")
        await rollout.note_restart(B, "restart_began", "")
        # The registration is the new process's, and the report is still the one of the other.
        store, path = cluster.brokers[B].store, paths.registration(B)
        node = await store.get(path)
        assert node is not None
        run = Registration.decode(path, node.data)
        await store.delete(path)
        data = replace(run, nonce="another run").encode()
        await store.create(path, data, mode=CreateMode.EPHEMERAL)
        await rollout.note_restart(B, "restarted", "")
        await rollout.note_restart(B, "healthy", "")
        row = await wait_rollout(balancer, "stopped")
        assert "no load report of the new process" in row["note"]


@in_virtual_time
async def test_abort_restores_and_leaves_what_operators_had_set() -> None:
    async with laden_cluster() as cluster, leading_at(cluster, A) as balancer:
        directives = cluster.brokers[A].directives
        await directives.begin_pause(AuditInfo(1, "bert", "exam"))
        await directives.begin_drain(C, Drain(AuditInfo(1, "bert"), 4, 1.0))
        await balancer.operations.rollout.begin(some(B))
        await wait_state(balancer, B, "draining")
        await eventually(lambda: B in directives.drains)
        await balancer.operations.rollout.act("abort", "anna", "")
        await wait_rollout(balancer, "aborted")
        await eventually(lambda: directives.drains.keys() == {C})
        pause = await pause_of(cluster.brokers[A].store)
        assert pause is not None
        assert pause.order.who == "bert"


@in_virtual_time
async def test_what_an_operator_orders_during_a_rollout_stays_after_it() -> None:
    async with laden_cluster() as cluster, leading_at(cluster, A) as balancer:
        directives = cluster.brokers[A].directives
        await balancer.operations.rollout.begin(some(B))
        await wait_state(balancer, B, "empty")
        await directives.begin_pause(AuditInfo(1, "bert", "exam"))
        await directives.begin_drain(B, Drain(AuditInfo(1, "bert", "disk"), 4, 1.0))
        await balancer.operations.rollout.act("abort", "anna", "")
        await wait_rollout(balancer, "aborted")
        await asyncio.sleep(10)
        assert [drain.order.who for drain in directives.drains.values()] == ["bert"]
        assert directives.pause is not None
        assert directives.pause.order.who == "bert"


@in_virtual_time
async def test_what_a_rollout_began_ends_though_the_store_fails_at_its_end() -> None:
    async with laden_cluster() as cluster, leading_at(cluster, A) as balancer:
        directives = cluster.brokers[A].directives
        await balancer.operations.rollout.begin(some(B))
        await wait_state(balancer, B, "empty")
        synced, failures = directives.wait_synced, [ConnectionLoss("cut"), ConnectionLoss("cut")]

        async def wait_synced() -> None:
            row = await row_of(balancer)
            if row["state"] == "aborted" and failures:
                raise failures.pop()
            await synced()

        with patch.object(directives, "wait_synced", wait_synced):
            await balancer.operations.rollout.act("abort", "anna", "")
            await eventually(lambda: not failures)
            await eventually(lambda: not directives.drains)
        assert await pause_of(cluster.brokers[A].store) is None


@in_virtual_time
async def test_a_broker_that_owns_nothing_is_not_restarted_before_its_drain_stands() -> None:
    """Until then a bundle may be placed on it."""
    async with laden_cluster() as cluster, leading_at(cluster, A) as balancer:
        await cluster.add(D)
        await cluster.publish()
        assert not cluster.brokers[D].serving
        may_write, tried = asyncio.Event(), 0
        drain = RolloutDirectives._drain

        async def held_up(directives: RolloutDirectives, rollout: Rollout, broker_id: str) -> None:
            nonlocal tried
            tried += 1
            # What was written may not be in this broker's copy yet.
            if may_write.is_set():
                await drain(directives, rollout, broker_id)

        with patch.object(RolloutDirectives, "_drain", held_up):
            await balancer.operations.rollout.begin(some(D))
            await eventually(lambda: tried > 5)
            assert states(await row_of(balancer)) == {D: "draining"}
            may_write.set()
            await restart(cluster, balancer, D)


@in_virtual_time
async def test_no_further_broker_begins_while_one_that_has_restarted_is_gone() -> None:
    async with laden_cluster() as cluster, leading_at(cluster, A) as balancer:
        rollout = balancer.operations.rollout
        await rollout.begin(some(B, C))
        await wait_state(balancer, B, "empty")
        await rollout.act("pause", "anna", "")
        await restart(cluster, balancer, B)
        await cluster.kill(B)
        await rollout.act("resume", "anna", "")
        row = await wait_rollout(balancer, "stopped")
        assert row["note"] == f"not registered: {B}"
        assert states(row)[C] == "waiting"


@in_virtual_time
async def test_a_paused_rollout_ends_the_broker_in_progress_and_begins_no_other() -> None:
    async with laden_cluster() as cluster, leading_at(cluster, A) as balancer:
        rollout = balancer.operations.rollout
        await rollout.begin(some(B, C))
        await wait_state(balancer, B, "empty")
        await rollout.act("pause", "anna", "peak")
        await restart(cluster, balancer, B)
        await asyncio.sleep(30)
        row = await row_of(balancer)
        assert (row["state"], states(row)[C]) == ("paused", "waiting")
        with pytest.raises(OrderConflict, match="pause does not fit"):
            await rollout.act("pause", "anna", "")
        await rollout.act("resume", "anna", "")
        await wait_state(balancer, C, "empty")


@in_virtual_time
async def test_a_rollout_that_overloads_the_rest_needs_acceptance() -> None:
    async with laden_cluster(usage_ratio=0.7) as cluster, leading_at(cluster, A) as balancer:
        rollout = balancer.operations.rollout
        with pytest.raises(OrderConflict, match="--accept-overload"):
            await rollout.begin(REQUEST)
        with pytest.raises(RolloutMissing):
            await rollout.current()
        accepted = replace(REQUEST, terms=RolloutTerms(accepts_overload=True))
        plan = await rollout.begin(accepted, is_dry_run=True)
        assert plan["refusal"]
        with pytest.raises(RolloutMissing):
            await rollout.act("abort", "", "")
        assert (await rollout.begin(accepted))["state"] == "running"
        with pytest.raises(OrderConflict, match="is running"):
            await rollout.begin(accepted)


@in_virtual_time
async def test_no_rollout_begins_after_the_loss_of_many_brokers() -> None:
    async with laden_cluster() as cluster, leading_at(cluster, A) as balancer:
        why = AuditInfo(1, "broker-ctl", "2 of 5 brokers were lost")
        lost = Pause(why, is_automatic=True, lost=("x:1", "y:1"))
        await cluster.brokers[A].store.create(
            paths.PAUSE, PauseRecord(lost).encode(), make_parents=True
        )
        await eventually(lambda: cluster.brokers[A].directives.pause is not None)
        with pytest.raises(OrderConflict, match="2 of 5 brokers were lost"):
            await balancer.operations.rollout.begin(REQUEST)


@in_virtual_time
async def test_a_broker_that_is_not_part_of_the_rollout_cannot_be_reported() -> None:
    async with laden_cluster() as cluster, leading_at(cluster, A) as balancer:
        rollout = balancer.operations.rollout
        await rollout.begin(some(B))
        with pytest.raises(RolloutMissing, match=C):
            await rollout.note_restart(C, "restarted", "")
        with pytest.raises(OrderConflict, match="restarted does not fit"):
            await rollout.note_restart(B, "restarted", "")
