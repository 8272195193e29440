"""The members over HTTP."""

import pytest

from broker_ctl.http_client import HttpClient
from tests.support.clusters.fake_services import Broker


async def test_the_members_and_what_they_have_read(
    leader: Broker, follower: Broker, http: HttpClient
) -> None:
    found = (await http.request("GET", f"{leader.url}/control/v1/failsafe")).json()
    members = [
        {"broker": leader.broker_id, "added": 0, "has_read": True},
        {"broker": follower.broker_id, "added": 0, "has_read": False},
    ]
    assert found == {
        "broker": leader.broker_id,
        "is_admitted": True,
        "serves_by_promises": False,
        "promised_ms": 250,
        # In the order of their names: these end in ports, other ones in each run.
        "members": sorted(members, key=lambda member: str(member["broker"])),
    }


@pytest.mark.parametrize("is_dry", [True, False])
async def test_a_member_is_removed_unless_it_is_a_dry_run(
    leader: Broker, follower: Broker, http: HttpClient, *, is_dry: bool
) -> None:
    url = f"{leader.url}/control/v1/failsafe/members/{follower.broker_id}"
    reply = await http.request("DELETE", f"{url}?dry_run={str(is_dry).lower()}")
    assert reply.json() == {"broker": follower.broker_id, "was_member": True}
    assert (follower.broker_id in leader.membership.added) is is_dry
    again = await http.request("DELETE", f"{leader.url}/control/v1/failsafe/members/nobody:1")
    assert again.json() == {"broker": "nobody:1", "was_member": False}


async def test_without_failsafe_there_are_no_members(leader: Broker, http: HttpClient) -> None:
    for method, path in (("GET", ""), ("DELETE", "/members/b:1")):
        object.__setattr__(leader.dependencies.services, "membership", None)
        reply = await http.request(method, f"{leader.url}/control/v1/failsafe{path}")
        assert reply.status == 409
        assert "ownershipAuthority" in reply.json()["reason"]
