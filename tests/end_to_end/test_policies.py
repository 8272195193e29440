"""Policies that an operator changes hold at once, and nobody is restarted for them."""

import asyncio
from functools import partial

from kazoo.client import KazooClient

from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.http_client import HttpClient
from tests.end_to_end.conftest import NewCluster
from tests.support.daemon.running_daemons import look_up, make_namespace
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

NAMESPACE = Namespace("public", "default")
TOPICS = [Topic("persistent", NAMESPACE, f"t-{number}") for number in range(12)]
POLICIES = "/admin/v2/clusters/quickstart/namespaceIsolationPolicies"


def policy(primary: str) -> dict[str, object]:
    return {
        "namespaces": [str(NAMESPACE)],
        "primary": [primary],
        "secondary": [],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "100"},
        },
        "unload_scope": "all_matching",
    }


async def test_an_isolation_policy_empties_the_brokers_that_it_does_not_name(
    new_cluster: NewCluster, http: HttpClient
) -> None:
    async with new_cluster(2, loadBalancerSheddingEnabled="false") as daemons:
        await daemons.wait_ready(http)
        one, two = daemons.all
        await make_namespace(http, one)
        for topic in TOPICS:
            await eventually(partial(look_up, http, one, topic), what=str(topic))

        async def refused() -> bool:
            return not any([await look_up(http, two, topic) for topic in TOPICS])

        async def served() -> bool:
            return all([await look_up(http, two, topic) for topic in TOPICS])

        # On one machine all brokers have one host: the policy names another, or this one.
        url = f"{one.url}{POLICIES}/only"
        reply = await http.request("POST", url, json=policy("elsewhere"), allow_redirects=True)
        assert reply.status == 204, reply.body
        await eventually(refused, what="nobody serves the namespace")
        reply = await http.request("POST", url, json=policy(r"127\.0\.0\..*"))
        assert reply.status == 204, reply.body
        await eventually(served, what="the primaries serve it")


async def test_read_only_policies_are_not_written_and_lookups_go_on(
    new_cluster: NewCluster, http: HttpClient, zookeeper: SharedEnsemble, chroot: str
) -> None:
    async with new_cluster(1) as daemons:
        await daemons.wait_ready(http)
        (only,) = daemons.all
        await make_namespace(http, only)
        client = KazooClient(hosts=zookeeper.connect_string + chroot)
        await asyncio.to_thread(client.start)
        try:
            await asyncio.to_thread(client.ensure_path, "/admin/flags/policies-readonly")
        finally:
            await asyncio.to_thread(client.stop)
            await asyncio.to_thread(client.close)

        async def is_refused() -> bool:
            url = f"{only.url}{POLICIES}/only"
            reply = await http.request("POST", url, json=policy("elsewhere"))
            return reply.status == 403 and b"read-only" in reply.body

        await eventually(is_refused, what="a refusal that says why")
        assert await eventually(lambda: look_up(http, only, TOPICS[0]))
