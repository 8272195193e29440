"""What the leader reads of a move."""

from broker_ctl.balancer.execution.transfer import read_owner
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.names import Bundle
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import CreateMode
from broker_ctl.store.records.ownership import NamespaceEphemeralData
from tests.support.clusters.sessions import lagging, parties

BUNDLE = Bundle.parse("t/ns/0x40000000_0x80000000")


@in_virtual_time
async def test_an_owner_that_the_leader_s_server_does_not_know_yet_is_found() -> None:
    async with parties(2, ensemble=lagging(5.0)) as (behind, owner):
        path, record = paths.ownership(BUNDLE), NamespaceEphemeralData(BrokerUrls("b:1"))
        await owner.store.create(path, record.encode(), CreateMode.EPHEMERAL, make_parents=True)
        assert await behind.store.get(path) is None
        found = await read_owner(behind.store, BUNDLE)
        assert found is not None
        assert found.broker_id == "b:1"
