"""Replicas that cannot be served, where the controller looks (docs: kafka-failure-kinds)."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from broker_ctl.broker.replicas.instructions import FailedReplicas
from broker_ctl.core.partitions.instructions import FAILED, STALE_EPOCH, STORAGE_ERROR, ReplicaError
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import CreateMode
from broker_ctl.store.records.partitions import decode_failed, encode_failed
from broker_ctl.tasks import TaskScope
from tests.support.clusters.sessions import Party, parties
from tests.support.replicas.instructions import held, named
from tests.support.time.waiting import eventually

PATH = paths.failed(1)


class Publishing:
    """Broker 1, and what others read."""

    def __init__(self, party: Party, other: Party) -> None:
        self.party = party
        self.other = other
        self.failed = FailedReplicas(party.store, 1, rng=random.Random(1))

    async def published(self) -> set[str] | None:
        """None: there is no node."""
        node = await self.other.store.get(PATH)
        return None if node is None else {str(each) for each in decode_failed(node)}

    async def wait_published(self, *partitions: str) -> None:
        wanted = set(partitions) if partitions else None

        async def is_so() -> bool:
            return await self.published() == wanted

        await eventually(is_so)


@asynccontextmanager
async def publishing() -> AsyncIterator[Publishing]:
    async with parties(2) as (party, other), TaskScope("test") as scope:
        one = Publishing(party, other)
        scope.start(one.failed.keep(), "keep")
        yield one


@in_virtual_time
async def test_a_failed_replica_is_published_until_it_works_again() -> None:
    async with publishing() as one:
        one.failed.update_from_listing([held("t-0")._replace(is_failed=True), held("t-1")])
        await one.wait_published("t-0")
        one.failed.update_from_listing([held("t-0"), held("t-1")._replace(is_failed=True)])
        await one.wait_published("t-1")
        one.failed.update_from_listing([held("t-0"), held("t-1")])
        await one.wait_published()


@in_virtual_time
async def test_a_refusal_counts_until_the_replica_is_instructed_again() -> None:
    async with publishing() as one:
        both = [named("t-0"), named("t-1")]
        errors = [ReplicaError(both[0], FAILED), ReplicaError(both[1], STALE_EPOCH)]
        one.failed.record_results(both, errors)
        await one.wait_published("t-0")
        # Its log can be read: that is not what was the matter.
        one.failed.update_from_listing([held("t-0"), held("t-1")])
        assert one.failed.reasons == {both[0]: FAILED}
        one.failed.record_results(both, [ReplicaError(both[0], STORAGE_ERROR)])
        assert one.failed.reasons == {both[0]: STORAGE_ERROR}
        # An instruction that was not carried out has not shown that it works.
        one.failed.record_results(both, [ReplicaError(each, STALE_EPOCH) for each in both])
        assert one.failed.reasons == {both[0]: STORAGE_ERROR}
        one.failed.record_results(both, [])
        await one.wait_published()


@in_virtual_time
async def test_a_new_life_knows_only_of_what_is_listed() -> None:
    async with publishing() as one:
        one.failed.record_results([named("t-0")], [ReplicaError(named("t-0"), FAILED)])
        await one.wait_published("t-0")
        one.failed.reset([held("t-1")._replace(is_failed=True)])
        await one.failed.publish()
        assert await one.published() == {"t-1"}


@in_virtual_time
async def test_the_node_of_a_session_before_is_replaced_by_one_of_this() -> None:
    async with publishing() as one:
        data = encode_failed([named("old-0")])
        await one.other.store.create(PATH, data, CreateMode.EPHEMERAL, make_parents=True)
        one.failed.update_from_listing([held("t-0")._replace(is_failed=True)])
        await one.wait_published("t-0")
        node = await one.other.store.get(PATH)
        assert node is not None
        assert node.stat.ephemeral_owner == one.party.store.session_id
        await one.other.store.delete(PATH)
        await one.failed.publish()
        assert await one.published() == {"t-0"}


@in_virtual_time
async def test_the_node_of_failed_replicas_goes_with_the_session() -> None:
    async with publishing() as one:
        one.failed.update_from_listing([held("t-0")._replace(is_failed=True)])
        await one.wait_published("t-0")
        one.party.expire()
        await one.wait_published()


@in_virtual_time
async def test_a_lost_connection_only_delays_it() -> None:
    async with publishing() as one:
        one.party.store.disconnect()
        one.failed.update_from_listing([held("t-0")._replace(is_failed=True)])
        one.party.store.reconnect()
        await one.wait_published("t-0")
