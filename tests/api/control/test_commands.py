"""Orders of the leader, and states."""

from typing import Any

import pytest

from broker_ctl.core.model.commands import (
    AcquireBundle,
    Command,
    MergeBundles,
    PrepareTransfer,
    ReceiveBundle,
    ReleaseBundle,
    SplitBundle,
)
from broker_ctl.errors import (
    AuthorityLost,
    BrokerCtlError,
    BundleBusy,
    BundleGone,
    Draining,
    Fenced,
    NotOwner,
    OperationTimeout,
    StoreClosed,
    StoreError,
)
from broker_ctl.http_client import HttpClient
from tests.support.clusters.fake_services import BUNDLES, CLUSTER, Broker, entry

BUNDLE = BUNDLES[0]
ORDERS: list[Command] = [
    PrepareTransfer(7, BUNDLE, "m1", 2),
    ReleaseBundle(7, BUNDLE, "m1", 2, 12, 3000),
    ReceiveBundle(7, BUNDLE, "m1", 2),
    AcquireBundle(7, BUNDLE),
    SplitBundle(7, BUNDLE, "range_equally_divide", (5,)),
    MergeBundles(7, *BUNDLES[:2]),
]


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.verb)
async def test_an_order_arrives_as_it_was_given(
    http: HttpClient, leader: Broker, order: Command
) -> None:
    url = f"{leader.url}/control/v1/{order.verb}"
    reply = await http.request("POST", url, json=order.to_row())
    assert (reply.status, reply.json()) == (200, {"token": 42})
    assert leader.commands.obeyed == [order]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Fenced("epoch 6"), 409),
        (NotOwner("b"), 409),
        (BundleGone("b"), 409),
        (BundleBusy("b", "other"), 409),
        (Draining("b"), 503),
        (AuthorityLost("b"), 503),
        (OperationTimeout("b"), 503),
        (StoreClosed("b"), 503),
        (StoreError("b"), 500),
    ],
)
async def test_a_refusal_names_its_kind(
    http: HttpClient, leader: Broker, error: BrokerCtlError, status: int
) -> None:
    leader.commands.refuse = error
    reply = await http.request(
        "POST", f"{leader.url}/control/v1/acquire", json=AcquireBundle(7, BUNDLE).to_row()
    )
    assert reply.status == status
    assert reply.json() == {"error": type(error).__name__, "reason": str(error)}


@pytest.mark.parametrize(
    ("verb", "row"),
    [
        ("obliterate", {}),
        ("status", {}),
        ("acquire", {}),
        ("acquire", {"epoch": "7", "bundle": str(BUNDLE)}),
        ("acquire", {"epoch": 7, "bundle": "nonsense"}),
        ("split", {"epoch": 7, "bundle": str(BUNDLE), "algorithm": "a", "boundaries": 1}),
        ("merge", {"epoch": 7, "left": str(BUNDLE)}),
        ("merge", {"epoch": 7, "left": str(BUNDLE), "right": "nonsense"}),
        ("acquire", [1]),
    ],
)
async def test_a_bad_order_is_a_400(http: HttpClient, leader: Broker, verb: str, row: Any) -> None:
    reply = await http.request("POST", f"{leader.url}/control/v1/{verb}", json=row)
    assert reply.status == 400
    assert reply.json()["reason"]
    assert leader.commands.obeyed == []


async def test_a_broker_reports_its_status(http: HttpClient, follower: Broker) -> None:
    follower.world.assign(BUNDLE, follower.broker_id)
    follower.journal.record(entry())
    leader_id = follower.world.leader_id
    reply = await http.request("GET", f"{follower.url}/control/v1/status")
    assert reply.status == 200
    status = reply.json()
    assert status.pop("journal")[0]["decision"]["reason"] == "below_threshold"
    assert status == {
        "broker": follower.broker_id,
        "cluster": CLUSTER,
        "session": {"state": "connected", "epoch": 3, "lease_remaining_s": 1.5},
        "is_leader": False,
        "leader": {"broker": leader_id, "url": f"http://{leader_id}"},
        "is_stopping": False,
        "is_drained": False,
        "is_ready": True,
        "reason": "",
        "bundles": [{"bundle": str(BUNDLE), "state": "owned", "token": 101}],
    }


@pytest.mark.parametrize("path", ["cluster", "explain?subject=x"])
async def test_a_request_that_only_the_leader_answers_is_redirected(
    http: HttpClient, leader: Broker, follower: Broker, path: str
) -> None:
    reply = await http.request("GET", f"{follower.url}/control/v1/{path}")
    assert reply.status == 307
    assert reply.headers["Location"] == f"{leader.url}/control/v1/{path}"
    follower.world.leader_id = None
    reply = await http.request("GET", f"{follower.url}/control/v1/{path}")
    assert (reply.status, reply.json()["error"]) == (503, "NoLeader")


async def test_a_leader_that_is_just_beginning_is_not_sent_to_itself(
    http: HttpClient, leader: Broker
) -> None:
    # Elected, as everybody sees, but its loop does not run yet.
    leader.urls = leader.world.brokers[leader.broker_id]
    leader.world.leader_id = leader.broker_id
    object.__setattr__(leader.dependencies, "admin", lambda: None)
    reply = await http.request("GET", f"{leader.url}/control/v1/cluster")
    assert (reply.status, reply.json()["error"]) == (503, "NoLeader")


async def test_the_leader_shows_the_cluster_and_explains(http: HttpClient, leader: Broker) -> None:
    overview = await http.request("GET", f"{leader.url}/control/v1/cluster")
    assert overview.json()["usage_imbalance"] == 1.25
    url = f"{leader.url}/control/v1/explain?subject="
    explained = await http.request("GET", url + leader.broker_id)
    assert explained.json()["subject"] == leader.broker_id
    assert (await http.request("GET", url + "nobody")).status == 404


async def test_the_leader_advises_on_the_size(http: HttpClient, leader: Broker) -> None:
    url = f"{leader.url}/control/v1/advice/size"
    advice = (await http.request("GET", url)).json()
    assert (advice["recommended"], advice["missing"], advice["growth_ratio"]) == (3, 0, 0.0)
    grown = (await http.request("GET", f"{url}?growth_percent=100")).json()
    assert (grown["recommended"], grown["growth_ratio"]) == (5, 1.0)
    for wrong in ("0", "1001", "-5", "1e9", "many"):
        assert (await http.request("GET", f"{url}?growth_percent={wrong}")).status == 400
    admin = leader.dependencies.admin()
    assert admin is not None
    object.__setattr__(admin, "advise_size", lambda _: None)
    reply = await http.request("GET", url)
    assert (reply.status, reply.json()["error"]) == (503, "NotReady")


async def test_owners_of_a_namespace_are_listed(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    leader.world.assign(BUNDLES[0], follower.broker_id)
    leader.ownership.moving.add(BUNDLES[1])
    reply = await http.request("GET", f"{leader.url}/control/v1/owners?namespace=t/ns")
    first, second, third, _ = reply.json()
    name = str(BUNDLES[0])
    assert first == {"bundle": name, "owner": follower.broker_id, "token": 101, "note": ""}
    assert second["note"].startswith("BundleMoving")
    assert third == {"bundle": str(BUNDLES[2]), "owner": None, "token": None, "note": ""}
    for namespace, status in (("t/unknown", 404), ("nonsense", 412), ("", 412)):
        url = f"{leader.url}/control/v1/owners?namespace={namespace}"
        assert (await http.request("GET", url)).status == status


async def test_a_broker_process_pulls_its_authority(http: HttpClient, leader: Broker) -> None:
    reply = await http.request("GET", f"{leader.url}/dataplane/v1/authority")
    assert reply.json() == {"session_epoch": 3, "remaining_ms": 1500}
