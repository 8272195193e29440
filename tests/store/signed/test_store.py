"""The store that verifies what it reads."""

import asyncio

from broker_ctl.lab.time import in_virtual_time
from broker_ctl.security.cluster_key import ClusterKeys
from broker_ctl.store import paths
from broker_ctl.store.interface import Read, Versioned
from broker_ctl.store.signed import SignedStore, ZnodeSignatures
from tests.support.clusters.sessions import parties

MOVE = paths.move("m1")


@in_virtual_time
async def test_a_node_that_nobody_has_signed_is_refused_by_each_way_to_read_it() -> None:
    async with parties() as (party,):
        failures: list[tuple[str, str]] = []
        signatures = ZnodeSignatures(
            ClusterKeys.of([b"k" * 32]),
            "c",
            party.clock,
            is_required=True,
            on_failure=lambda *failure: failures.append(failure),
        )
        store = SignedStore(party.store, signatures)
        await party.store.create(MOVE, b'{"version":1}', make_parents=True)
        deadline_s = asyncio.get_running_loop().time() + 10.0
        found = [
            await store.get(MOVE),
            *await store.get_many([MOVE]),
            *await store.read_many([Read(MOVE)], deadline_s),
        ]
        assert [node.data for node in found if isinstance(node, Versioned)] == [b""] * 3
        assert failures == [("move", "unsigned")] * 3
