"""Unload, move, split and merge by hand."""

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest

from broker_ctl.broker.lookup.lookup import Answer, Redirect
from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import (
    BrokerCtlError,
    BundleMoving,
    NoBroker,
    NotOwner,
    PeerRefused,
    PeerUnreachable,
    UnloadFailed,
)
from broker_ctl.http_client import HttpClient
from tests.support.clusters.fake_services import BUNDLES, NAMESPACE, Broker
from tests.support.time.waiting import eventually

BUNDLE = BUNDLES[1]
SPLIT_AT = 0x60000000


def url_of(broker: Broker, verb: str, bundle: Bundle = BUNDLE) -> str:
    return f"{broker.url}/admin/v2/namespaces/t/ns/{bundle.range}/{verb}"


async def test_the_owner_unloads(http: HttpClient, leader: Broker) -> None:
    leader.world.assign(BUNDLE, leader.broker_id)
    assert (await http.request("PUT", url_of(leader, "unload"))).status == 204
    assert BUNDLE not in leader.world.owners


async def test_an_unload_of_an_unowned_bundle_succeeds(http: HttpClient, leader: Broker) -> None:
    assert (await http.request("PUT", url_of(leader, "unload"))).status == 204


async def test_an_unload_is_sent_on_to_the_owner(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    leader.world.assign(BUNDLE, follower.broker_id)
    reply = await http.request("PUT", url_of(leader, "unload") + "?authoritative=false")
    assert reply.status == 307
    assert reply.headers["Location"] == url_of(follower, "unload") + "?authoritative=false"
    assert (await http.request("PUT", reply.headers["Location"])).status == 204
    assert BUNDLE not in leader.world.owners


@pytest.mark.parametrize(
    ("error", "status"),
    [(UnloadFailed("open"), 503), (BundleMoving("m"), 503), (NotOwner("gone"), 204)],
)
async def test_an_unload_that_fails_says_whether_to_retry(
    http: HttpClient, leader: Broker, error: BrokerCtlError, status: int
) -> None:
    leader.world.assign(BUNDLE, leader.broker_id)
    leader.ownership.refuse = error
    assert (await http.request("PUT", url_of(leader, "unload"))).status == status


@pytest.mark.parametrize("verb", ["unload", "split", "merge"])
@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("t/ns/0x40000000_0x90000000", 412),
        ("t/ns/0x50000000_0x80000000", 412),
        ("t/ns/nonsense", 412),
        ("t/unknown/0x00000000_0xffffffff", 404),
    ],
)
async def test_a_range_that_is_not_a_bundle_is_refused(
    http: HttpClient, leader: Broker, verb: str, path: str, status: int
) -> None:
    reply = await http.request("PUT", f"{leader.url}/admin/v2/namespaces/{path}/{verb}")
    assert reply.status == status


# A move.


async def test_a_move_goes_through_the_leader(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    leader.world.assign(BUNDLE, leader.broker_id)
    wanted = f"?destinationBroker=http%3A%2F%2F{follower.broker_id.replace(':', '%3A')}"
    reply = await http.request("PUT", url_of(follower, "unload") + wanted)
    assert reply.status == 307
    assert reply.headers["Location"] == url_of(leader, "unload") + wanted
    assert (await http.request("PUT", reply.headers["Location"])).status == 204
    assert leader.world.owners[BUNDLE] == follower.broker_id


@pytest.mark.parametrize("written", ["{}", "http://{}", "https://{}", "https://{}/"])
async def test_a_destination_may_be_written_as_an_address(
    http: HttpClient, leader: Broker, follower: Broker, written: str
) -> None:
    leader.world.assign(BUNDLE, leader.broker_id)
    query = urlencode({"destinationBroker": written.format(follower.broker_id)})
    assert (await http.request("PUT", f"{url_of(leader, 'unload')}?{query}")).status == 204
    assert leader.world.owners[BUNDLE] == follower.broker_id
    gone = urlencode({"destinationBroker": written.format("gone:1")})
    assert (await http.request("PUT", f"{url_of(leader, 'unload')}?{gone}")).status == 409


async def test_a_move_to_nobody_is_a_conflict(http: HttpClient, leader: Broker) -> None:
    reply = await http.request("PUT", url_of(leader, "unload") + "?destinationBroker=gone:1")
    assert (reply.status, reply.json()["error"]) == (409, "NoBroker")


async def test_a_move_without_a_leader_is_for_later(http: HttpClient, follower: Broker) -> None:
    follower.world.leader_id = None
    url = f"{url_of(follower, 'unload')}?destinationBroker={follower.broker_id}"
    reply = await http.request("PUT", url)
    assert (reply.status, reply.json()["error"]) == (503, "NoLeader")


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (NoBroker("full"), 503, "NoBroker"),
        (NotOwner("nobody's"), 409, "NotOwner"),
        (PeerUnreachable("silent"), 503, "PeerUnreachable"),
        (PeerRefused("Draining", "b"), 503, "Draining"),
        (PeerRefused("Fenced", "b"), 409, "Fenced"),
        (PeerRefused("os", "b"), 409, "os"),
    ],
)
async def test_a_move_that_fails_is_answered_with_its_error(
    http: HttpClient, leader: Broker, error: BrokerCtlError, status: int, kind: str
) -> None:
    leader.admin.refuse = error
    url = f"{url_of(leader, 'unload')}?destinationBroker={leader.broker_id}"
    reply = await http.request("PUT", url)
    assert (reply.status, reply.json()["error"]) == (status, kind)


# A whole namespace.


async def test_a_namespace_is_unloaded_at_all_its_owners(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    for bundle, owner in zip(BUNDLES, [leader, follower, leader], strict=False):
        leader.world.assign(bundle, owner.broker_id)
    reply = await http.request("PUT", f"{leader.url}/admin/v2/namespaces/t/ns/unload")
    assert reply.status == 204
    assert not leader.world.owners


async def test_an_unload_of_a_namespace_reports_the_number_of_bundles_that_failed(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    for bundle, owner in zip(BUNDLES, [leader, follower, follower], strict=False):
        leader.world.assign(bundle, owner.broker_id)
    follower.ownership.refuse = UnloadFailed("topics are open")
    reply = await http.request("PUT", f"{leader.url}/admin/v2/namespaces/t/ns/unload")
    assert reply.status == 503
    assert reply.json()["reason"].startswith("2 bundles could not be unloaded")
    assert set(leader.world.owners) == {BUNDLES[1], BUNDLES[2]}


async def test_an_unknown_namespace_cannot_be_unloaded(http: HttpClient, leader: Broker) -> None:
    reply = await http.request("PUT", f"{leader.url}/admin/v2/namespaces/t/unknown/unload")
    assert reply.status == 404


# A split.


async def test_the_owner_splits_in_the_middle(http: HttpClient, leader: Broker) -> None:
    leader.world.assign(BUNDLE, leader.broker_id)
    assert (await http.request("PUT", url_of(leader, "split"))).status == 204
    assert SPLIT_AT in leader.world.rings[NAMESPACE].boundaries
    assert len(leader.world.owners) == 2


async def test_a_split_of_a_free_bundle_hands_the_proof_of_its_placement_on(
    http: HttpClient, leader: Broker, follower: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    find, seen = leader.lookup.find_bundle, []

    async def prove(bundle: Bundle, *, proof: str | None = None, **how: Any) -> Answer:
        seen.append(proof)
        found = await find(bundle, **how)
        return replace(found, proof="new") if isinstance(found, Redirect) else found

    monkeypatch.setattr(leader.lookup, "find_bundle", prove)
    leader.lookup.placement = follower.broker_id
    url = url_of(leader, "split")
    reply = await http.request("PUT", f"{url}?placementProof=old")
    there = f"{url_of(follower, 'split')}?authoritative=true&placementProof=new"
    assert (reply.status, reply.headers["Location"]) == (307, there)
    await http.request("PUT", url)
    assert seen == ["old", ""]


async def test_a_bundle_is_split_at_the_given_positions(http: HttpClient, leader: Broker) -> None:
    leader.world.assign(BUNDLE, leader.broker_id)
    url = f"{url_of(leader, 'split')}?splitAlgorithmName=specified_positions_divide"
    assert (await http.request("PUT", url, json=[0x41000000, 0x42000000])).status == 204
    assert {0x41000000, 0x42000000} <= set(leader.world.rings[NAMESPACE].boundaries)


async def test_a_split_that_unloads_goes_through_the_leader_who_moves_the_children(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    leader.world.assign(BUNDLE, follower.broker_id)
    url = f"{url_of(follower, 'split')}?unload=true&splitAlgorithmName=range_equally_divide"
    reply = await http.request("PUT", url)
    assert (reply.status, reply.headers["Location"]) == (
        307,
        url.replace(follower.url, leader.url),
    )
    assert (await http.request("PUT", reply.headers["Location"])).status == 204
    children = BUNDLE.cut((SPLIT_AT,))
    assert leader.world.owners == dict.fromkeys(children, max(leader.world.brokers))


@pytest.mark.parametrize(("name", "split"), [("LARGEST", BUNDLES[1]), ("HOT", BUNDLES[2])])
async def test_a_bundle_to_split_may_be_named_as_the_largest_or_the_hottest(
    http: HttpClient, leader: Broker, follower: Broker, name: str, split: Bundle
) -> None:
    for bundle in BUNDLES[1:3]:
        leader.world.assign(bundle, follower.broker_id)
    path = f"/admin/v2/namespaces/t/ns/{name}/split"
    reply = await http.request("PUT", follower.url + path)
    assert (reply.status, reply.headers["Location"]) == (307, leader.url + path)
    assert (await http.request("PUT", reply.headers["Location"])).status == 204
    assert split not in leader.world.rings[NAMESPACE]
    unknown = f"{leader.url}/admin/v2/namespaces/t/unknown/{name}/split"
    assert (await http.request("PUT", unknown)).status == 404


async def test_a_namespace_without_load_reports_has_no_largest_bundle(
    http: HttpClient, leader: Broker
) -> None:
    reply = await http.request("PUT", f"{leader.url}/admin/v2/namespaces/t/ns/LARGEST/split")
    assert (reply.status, reply.json()["error"]) == (412, "BundleGone")


async def test_only_supported_algorithms_may_be_named(leader: Broker, http: HttpClient) -> None:
    leader.world.assign(BUNDLE, leader.broker_id)
    await leader.metadata.configuration.set(
        "supportedNamespaceBundleSplitAlgorithms", "range_equally_divide"
    )
    url = f"{url_of(leader, 'split')}?splitAlgorithmName=topic_count_equally_divide"

    async def is_refused() -> bool:
        reply = await http.request("PUT", url)
        return reply.status == 412 and b"not in supportedNamespaceBundleSplit" in reply.body

    await eventually(is_refused)
    assert (await http.request("PUT", url_of(leader, "split"))).status == 204


async def test_a_split_without_a_position_succeeds_and_changes_nothing(
    http: HttpClient, leader: Broker
) -> None:
    leader.world.assign(BUNDLE, leader.broker_id)
    url = f"{url_of(leader, 'split')}?splitAlgorithmName=topic_count_equally_divide"
    assert (await http.request("PUT", url)).status == 204
    assert leader.world.owners == {BUNDLE: leader.broker_id}


async def test_an_unowned_bundle_is_assigned_before_it_is_split(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    leader.lookup.placement = follower.broker_id
    first = await http.request("PUT", url_of(follower, "split") + "?unload=false")
    expected = url_of(leader, "split") + "?unload=false&authoritative=false"
    assert (first.status, first.headers["Location"]) == (307, expected)
    second = await http.request("PUT", first.headers["Location"])
    expected = url_of(follower, "split") + "?unload=false&authoritative=true"
    assert (second.status, second.headers["Location"]) == (307, expected)
    assert (await http.request("PUT", second.headers["Location"])).status == 204
    assert set(leader.world.owners.values()) == {follower.broker_id}


async def test_a_split_is_sent_on_to_the_owner(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    leader.world.assign(BUNDLE, follower.broker_id)
    reply = await http.request("PUT", url_of(leader, "split"))
    assert (reply.status, reply.headers["Location"]) == (307, url_of(follower, "split"))


@pytest.mark.parametrize(
    ("query", "body", "status"),
    [
        ("?splitAlgorithmName=by_magic", None, 412),
        ("?splitAlgorithmName=specified_positions_divide", None, 412),
        ("?splitAlgorithmName=specified_positions_divide", [], 412),
        ("", [1 << 32], 412),
        ("", [-1], 412),
        ("", ["1"], 412),
        ("", {"positions": [1]}, 400),
        ("?unload=maybe", None, 400),
    ],
)
async def test_a_split_that_makes_no_sense_is_refused(
    http: HttpClient, leader: Broker, query: str, body: Any, status: int
) -> None:
    leader.world.assign(BUNDLE, leader.broker_id)
    reply = await http.request("PUT", url_of(leader, "split") + query, json=body)
    assert reply.status == status
    assert leader.world.owners == {BUNDLE: leader.broker_id}


async def test_a_refused_algorithm_is_answered_with_those_of_the_cluster(
    http: HttpClient, leader: Broker
) -> None:
    for name in ("by_magic", "org.example.ByMagic"):
        url = f"{url_of(leader, 'split')}?splitAlgorithmName={name}"
        reply = await http.request("PUT", url)
        assert "in supportedNamespaceBundleSplitAlgorithms: " in reply.json()["reason"]


# A merge.

WHOLE = BUNDLES[1].joined(BUNDLES[2])


@pytest.mark.parametrize(
    ("bundle", "query"),
    [
        (BUNDLES[1], ""),
        (BUNDLES[1], f"?with={BUNDLES[2].range}"),
        (BUNDLES[2], f"?with={BUNDLES[1].range}"),
    ],
)
async def test_two_neighbours_are_merged_through_the_leader(
    http: HttpClient, leader: Broker, follower: Broker, bundle: Bundle, query: str
) -> None:
    leader.world.assign(BUNDLES[1], follower.broker_id)
    reply = await http.request("PUT", url_of(follower, "merge", bundle) + query)
    assert (reply.status, reply.headers["Location"]) == (
        307,
        url_of(leader, "merge", bundle) + query,
    )
    assert (await http.request("PUT", reply.headers["Location"])).status == 204
    assert leader.world.owners == {WHOLE: follower.broker_id}
    # Again, its answer was lost: nothing more is merged.
    assert (await http.request("PUT", reply.headers["Location"])).status == 412


@pytest.mark.parametrize(
    ("bundle", "query"),
    [
        (BUNDLES[3], ""),
        (BUNDLES[0], f"?with={BUNDLES[2].range}"),
        (BUNDLES[1], f"?with={BUNDLES[1].range}"),
        (BUNDLES[1], "?with=0x80000000_0x90000000"),
        (BUNDLES[1], "?with=nonsense"),
    ],
)
async def test_a_merge_of_bundles_that_are_not_adjacent_is_refused(
    http: HttpClient, leader: Broker, bundle: Bundle, query: str
) -> None:
    ring = leader.world.rings[NAMESPACE]
    reply = await http.request("PUT", url_of(leader, "merge", bundle) + query)
    assert reply.status == 412
    assert leader.world.rings[NAMESPACE] is ring


async def test_a_merge_without_a_leader_is_for_later(http: HttpClient, follower: Broker) -> None:
    follower.world.leader_id = None
    reply = await http.request("PUT", url_of(follower, "merge"))
    assert (reply.status, reply.json()["error"]) == (503, "NoLeader")


async def test_a_merge_that_fails_is_answered_with_its_error(
    http: HttpClient, leader: Broker
) -> None:
    leader.admin.refuse = NotOwner("it has moved")
    reply = await http.request("PUT", url_of(leader, "merge"))
    assert (reply.status, reply.json()["error"]) == (409, "NotOwner")
