"""Writes of a controller, and when they wait."""

import asyncio

from broker_ctl.controller.store.fenced_writer import FencedWrites
from broker_ctl.coordination.election import Leadership
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store.interface import Create
from broker_ctl.store.paths import CONTROLLER_ELECTION
from tests.support.clusters.sessions import parties


@in_virtual_time
async def test_a_suspended_controller_writes_nothing_until_it_leads_on() -> None:
    async with parties() as (party,):
        await party.store.create(CONTROLLER_ELECTION.epoch_path, make_parents=True)
        leadership = Leadership(CONTROLLER_ELECTION, 0, lambda: None)
        writes = FencedWrites(party.store, leadership, lambda _: None)
        leadership.suspend()
        async with asyncio.TaskGroup() as group:
            group.create_task(writes.write([Create("/a")]), name="write")
            await asyncio.sleep(1.0)
            assert await party.store.exists("/a") is None
            leadership.resume()
        assert await party.store.exists("/a") is not None
