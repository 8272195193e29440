"""Namespaces over HTTP."""

from typing import Any

import pytest

from broker_ctl.core.names import Namespace
from broker_ctl.http import HttpClient
from broker_ctl.surface.admin_namespaces import MAX_BUNDLES
from tests.support.surface_parts import BUNDLES, CLUSTER, Broker

NAMESPACES = "/admin/v2/namespaces"
QUARTERS = ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"]


async def test_a_namespace_is_created_shown_listed_and_deleted(
    http: HttpClient, leader: Broker
) -> None:
    url = f"{leader.url}{NAMESPACES}/t/new"
    assert (await http.request("PUT", url)).status == 204
    assert (await http.request("GET", url)).json() == {
        "bundles": {"boundaries": QUARTERS, "numBundles": 4},
        "replication_clusters": [CLUSTER],
    }
    listed = await http.request("GET", f"{leader.url}{NAMESPACES}/t")
    assert listed.json() == ["t/new", "t/ns"]
    assert (await http.request("PUT", url)).status == 409
    assert (await http.request("DELETE", url)).status == 204
    assert (await http.request("DELETE", url)).status == 404
    assert (await http.request("GET", url)).status == 404
    assert (await http.request("GET", f"{url}/bundles")).status == 404


async def test_an_unknown_tenant_has_no_namespaces(http: HttpClient, leader: Broker) -> None:
    reply = await http.request("GET", f"{leader.url}{NAMESPACES}/nobody")
    assert (reply.status, reply.json()) == (200, [])


async def test_a_namespace_whose_bundles_are_owned_stays(http: HttpClient, leader: Broker) -> None:
    leader.world.assign(BUNDLES[0], leader.broker_id)
    reply = await http.request("DELETE", f"{leader.url}{NAMESPACES}/t/ns")
    assert (reply.status, reply.json()["error"]) == (409, "OwnershipError")


@pytest.mark.parametrize(
    ("bundles", "expected"),
    [
        ({"numBundles": 2}, ["0x00000000", "0x80000000", "0xffffffff"]),
        ({"numBundles": 9, "boundaries": ["0x00000000", "0x10", "0xFFFFFFFF"]}, None),
        ({}, QUARTERS),
        (None, QUARTERS),
    ],
)
async def test_the_ring_is_cut_as_the_body_says(
    http: HttpClient, leader: Broker, bundles: Any, expected: list[str] | None
) -> None:
    url = f"{leader.url}{NAMESPACES}/t/new"
    body = {"bundles": bundles, "replication_clusters": ["other"]}
    assert (await http.request("PUT", url, json=body)).status == 204
    ring = (await http.request("GET", f"{url}/bundles")).json()
    boundaries = expected or ["0x00000000", "0x00000010", "0xffffffff"]
    assert ring == {"boundaries": boundaries, "numBundles": len(boundaries) - 1}


@pytest.mark.parametrize(
    ("bundles", "status"),
    [
        ({"numBundles": MAX_BUNDLES + 1}, 412),
        ({"numBundles": 0}, 412),
        ({"numBundles": -1}, 412),
        ({"numBundles": True}, 400),
        ({"numBundles": "4"}, 400),
        ({"boundaries": "0x0"}, 400),
        ({"boundaries": ["0x00000000"]}, 412),
        ({"boundaries": ["0x00000000", "0x80000000"]}, 412),
        ({"boundaries": ["0x00000000", "0x1ffffffff"]}, 412),
        ({"boundaries": ["0x00000000", 4_294_967_295]}, 412),
        ({"boundaries": ["0x00000000", "-0x1"]}, 412),
        ({"boundaries": ["0x00000000", 10, "0xffffffff"]}, 412),
        ({"boundaries": [*(hex(n) for n in range(MAX_BUNDLES + 1)), "0xffffffff"]}, 412),
        ([4], 400),
        (4, 400),
    ],
)
async def test_a_ring_that_is_none_is_refused(
    http: HttpClient, leader: Broker, bundles: Any, status: int
) -> None:
    url = f"{leader.url}{NAMESPACES}/t/new"
    reply = await http.request("PUT", url, json={"bundles": bundles})
    assert reply.status == status
    assert reply.json()["reason"]
    assert Namespace("t", "new") not in leader.world.rings


@pytest.mark.parametrize("namespace", ["t/a%20b", "t/..%2Fx", "%00/x"])
async def test_a_bad_name_is_refused(http: HttpClient, leader: Broker, namespace: str) -> None:
    reply = await http.request("PUT", f"{leader.url}{NAMESPACES}/{namespace}")
    assert (reply.status, reply.json()["error"]) == (412, "InvalidName")


@pytest.mark.parametrize("body", [b"{", b"[1]", b"\xff", b"null null"])
async def test_a_body_that_is_no_object_is_refused(
    http: HttpClient, leader: Broker, body: bytes
) -> None:
    reply = await http.request("PUT", f"{leader.url}{NAMESPACES}/t/new", content=body)
    assert reply.status == 400
    assert reply.json()["reason"]
