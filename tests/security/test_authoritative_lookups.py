"""Lookups whose sender claims that the leader chose the broker that is asked."""

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

from broker_ctl.api.binary.enums import LookupType
from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.http_client import HttpClient, HttpReply
from broker_ctl.lab.embedded.daemons import DaemonProcess, Daemons
from tests.end_to_end.test_policies import POLICIES, policy
from tests.support.daemon.running_daemons import counts, leader_of, make_namespace, status
from tests.support.http.binary_client import BinaryClient
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

NAMESPACE = Namespace("public", "default")
TOPICS = [Topic("persistent", NAMESPACE, f"t-{number}") for number in range(12)]
SETTLED = {"loadBalancerSheddingEnabled": "false", "loadBalancerAutoBundleSplitEnabled": "false"}

NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


@asynccontextmanager
async def two_daemons(
    zookeeper: SharedEnsemble,
    chroot: str,
    directory: Path,
    settings: Mapping[str, str] = NO_SETTINGS,
) -> AsyncIterator[tuple[HttpClient, list[DaemonProcess]]]:
    store = {"metadataStoreUrl": f"zk:{zookeeper.connect_string}{chroot}"}
    async with (
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=8 << 20) as http,
        Daemons(directory, 2, {**store, **SETTINGS, **SETTLED, **settings}) as daemons,
    ):
        await daemons.wait_ready(http)
        await make_namespace(http, daemons.all[0], bundles=8)
        yield http, list(daemons.all)


def path_of(topic: Topic) -> str:
    return f"/lookup/v2/topic/{topic.domain}/{topic.namespace}/{topic.local}"


async def claim(http: HttpClient, daemon: DaemonProcess, topic: Topic, more: str = "") -> HttpReply:
    """A lookup that says that the leader chose this broker."""
    return await http.request("GET", f"{daemon.url}{path_of(topic)}?authoritative=true{more}")


async def claimed(http: HttpClient, daemon: DaemonProcess, topic: Topic) -> int:
    return (await claim(http, daemon, topic)).status


async def claimed_binary(daemon: DaemonProcess, topic: Topic) -> LookupType:
    """The same over the binary protocol, which has no place for a proof."""
    async with BinaryClient.connected(daemon.lookup_port) as client:
        return LookupType((await client.find(str(topic), authoritative=True)).response)


def keyed(directory: Path) -> Mapping[str, str]:
    """Settings of brokers that want proofs."""
    key = directory / "cluster.key"
    key.write_bytes(base64.b64encode(bytes(range(32))))
    key.chmod(0o600)
    return {"clusterKeyFile": str(key), "clusterKeyRequired": "true"}


async def refuses(http: HttpClient, daemon: DaemonProcess, topic: Topic) -> bool:
    """Whether the lookup is refused; otherwise the bundle has no owner again."""
    if await claimed(http, daemon, topic) == 503:
        return True
    url = f"{daemon.url}/admin/v2/namespaces/{NAMESPACE}/unload"
    await http.request("PUT", url, allow_redirects=True)
    return False


async def test_a_lookup_does_not_bring_a_bundle_to_a_broker_that_a_policy_excludes(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path
) -> None:
    async with two_daemons(zookeeper, chroot, tmp_path) as (http, [one, two]):
        url = f"{one.url}{POLICIES}/only"
        reply = await http.request("POST", url, json=policy("elsewhere"), allow_redirects=True)
        assert reply.status == 204, reply.body
        for daemon in (one, two):
            await eventually(partial(refuses, http, daemon, TOPICS[0]), what="the policy is known")
            for topic in TOPICS:
                assert await claimed(http, daemon, topic) == 503
            assert (await status(http, daemon))["bundles"] == []


async def test_a_lookup_does_not_bring_a_bundle_to_a_drained_broker(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path
) -> None:
    async with two_daemons(zookeeper, chroot, tmp_path) as (http, daemons):
        drained = daemons[1]
        url = f"{daemons[0].url}/control/v1/drains/{drained.broker_id}?force=true"
        body = {"by": "test", "reason": "repair"}
        reply = await http.request("PUT", url, json=body, allow_redirects=True)
        assert reply.status == 200, reply.body

        async def is_drained() -> bool:
            return bool((await status(http, drained))["is_drained"])

        await eventually(is_drained)
        for topic in TOPICS:
            assert await claimed(http, drained, topic) == 503
        assert (await status(http, drained))["bundles"] == []


async def test_a_lookup_moves_no_bundle_while_the_balancer_is_paused(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path
) -> None:
    async with two_daemons(zookeeper, chroot, tmp_path) as (http, [one, two]):
        for topic in TOPICS:
            assert await claimed(http, one, topic) == 200
        bundles = (await status(http, one))["bundles"]
        body = {"by": "test", "reason": "repair"}
        url = f"{one.url}/control/v1/pause"
        reply = await http.request("PUT", url, json=body, allow_redirects=True)
        assert reply.status == 200, reply.body
        for topic in TOPICS:
            assert await claimed(http, two, topic) == 200
        assert (await status(http, one))["bundles"] == bundles
        assert (await status(http, two))["bundles"] == []


async def test_a_lookup_does_not_choose_the_broker_in_place_of_the_leader(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path
) -> None:
    async with two_daemons(zookeeper, chroot, tmp_path, keyed(tmp_path)) as (http, daemons):
        leader, _ = await eventually(partial(leader_of, http, daemons), what="a leader")
        follower = next(daemon for daemon in daemons if daemon is not leader)
        for topic in TOPICS:
            for made_up in ("", "&placementProof=1.1.9999999999999.AAAA"):
                reply = await claim(http, follower, topic, made_up)
                assert reply.status == 307, "the client has chosen the broker"
                location = f"{leader.url}{path_of(topic)}?authoritative=false"
                assert reply.headers["Location"] == location
        assert (await status(http, follower))["bundles"] == []

        # Clients that follow redirects find an owner, wherever they ask.
        for topic in TOPICS:
            found = await http.request("GET", follower.url + path_of(topic), allow_redirects=True)
            assert found.status == 200, found.body
        assert (await status(http, follower))["bundles"] != []
        unproven = await counts(http, follower, "broker_ctl_unproven_lookups_total")
        assert unproven == {"missing": len(TOPICS), "wrong": len(TOPICS)}


async def test_a_binary_lookup_without_a_proof_chooses_a_broker_only_where_placement_could(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path
) -> None:
    async with two_daemons(zookeeper, chroot, tmp_path, keyed(tmp_path)) as (http, daemons):
        leader, _ = await eventually(partial(leader_of, http, daemons), what="a leader")
        follower = next(daemon for daemon in daemons if daemon is not leader)
        # What a client gains: a bundle without an owner goes where it asks.
        for topic in TOPICS:
            assert await claimed_binary(follower, topic) is LookupType.CONNECT
        bundles = (await status(http, follower))["bundles"]
        assert bundles != []
        # A bundle with an owner stays where it is.
        for topic in TOPICS:
            assert await claimed_binary(leader, topic) is LookupType.CONNECT
        assert (await status(http, leader))["bundles"] == []
        assert (await status(http, follower))["bundles"] == bundles
        # And a drain does not give way.
        url = f"{leader.url}/control/v1/drains/{follower.broker_id}?force=true"
        body = {"by": "test", "reason": "repair"}
        reply = await http.request("PUT", url, json=body, allow_redirects=True)
        assert reply.status == 200, reply.body

        async def is_empty() -> bool:
            now = await status(http, follower)
            return bool(now["is_drained"]) and now["bundles"] == []

        await eventually(is_empty, what="the drain has taken all bundles away")
        url = f"{leader.url}/admin/v2/namespaces/{NAMESPACE}/unload"
        await http.request("PUT", url, allow_redirects=True)
        for topic in TOPICS:
            await claimed_binary(follower, topic)
        assert (await status(http, follower))["bundles"] == []
