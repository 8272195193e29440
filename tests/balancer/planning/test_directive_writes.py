"""Writes of the leader among the directives: they end when they are cancelled."""

import asyncio
from unittest.mock import patch

from broker_ctl.balancer.planning.directives import write_directives
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store.interface import Create
from broker_ctl.tasks import TaskScope
from tests.support.clusters.leader_cluster import running_cluster
from tests.support.clusters.leading_balancers import leading_at

A, B = "a:8080", "b:8080"
STOP_S = 5.0


@in_virtual_time
async def test_a_write_that_is_cancelled_does_not_wait_for_a_copy_that_stays_behind() -> None:
    """A daemon that stops closes its store: nothing brings the copy up to date any more."""
    async with running_cluster(A, B) as cluster, leading_at(cluster, B) as balancer:
        term = balancer.term
        assert term is not None
        never = asyncio.Event()

        async def wait(*_: object) -> None:
            await never.wait()

        with (
            patch.object(type(term.leadership), "write", wait),
            patch.object(type(term.dependencies.directives), "wait_synced", wait),
        ):
            async with TaskScope("test") as scope:
                writing = scope.start(write_directives(term, Create("/x")), "write")
                await asyncio.sleep(0)
                writing.cancel()
                await asyncio.wait([writing], timeout=STOP_S)
                assert writing.cancelled()
