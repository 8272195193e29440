"""Original principals: of a proxy's connection, proven or not, and of single commands."""

from dataclasses import replace
from typing import Any

import pytest

from broker_ctl.api.binary.dependencies import BinaryRules
from broker_ctl.api.binary.enums import CommandType, LookupType, ServerError
from broker_ctl.api.binary.handshake import Admitted, OriginalPrincipal, admit
from broker_ctl.api.binary.pulsar_commands_pb2 import CommandConnect
from broker_ctl.core.model.names import Topic
from broker_ctl.security.authentication import Authenticator, Evidence, Principal, Proof
from broker_ctl.security.authorization import (
    AuthorizationPolicy,
    ClusterRoles,
    Grants,
    NamespaceGrants,
)
from broker_ctl.security.static_tokens import StaticTokens
from tests.api.binary.serving import SELF, Served, serving
from tests.support.http.binary_client import BinaryClient, command, lookup, partitions

TOPIC = "persistent://t/ns/x"
APP, OTHER, PROXY = "a-secret-of-the-app", "a-secret-of-another", "a-secret-of-the-proxy"
AUTHENTICATOR = Authenticator([StaticTokens.parse(f"app:{APP}\nother:{OTHER}\nproxy:{PROXY}\n")])
POLICY = AuthorizationPolicy(ClusterRoles(proxies=frozenset({"proxy"})), is_enabled=True)
RULES = BinaryRules("test", AUTHENTICATOR, POLICY)
PROVING = replace(RULES, policy=replace(POLICY, authenticates_original=True))


def connect(token: str, **named: Any) -> bytes:
    return command(
        CommandType.CONNECT,
        client_version="c",
        auth_method_name="token",
        auth_data=token.encode(),
        **named,
    )


def proven(token: str, named: str = "root") -> dict[str, Any]:
    """The fields of a forwarded token, which count for more than the principal that is named."""
    return {
        "original_principal": named,
        "original_auth_data": token,
        "original_auth_method": "token",
    }


def allow(served: Served, *roles: str) -> None:
    served.assign(SELF, TOPIC)
    served.grants = Grants(
        namespace=NamespaceGrants({role: frozenset({"produce"}) for role in roles})
    )


@pytest.mark.parametrize(
    ("granted", "answer"),
    [
        (("proxy", "app"), LookupType.FAILED),
        (("proxy", "other"), LookupType.FAILED),
        (("app", "other"), LookupType.FAILED),
        (("proxy", "app", "other"), LookupType.CONNECT),
    ],
)
async def test_a_command_for_another_principal_needs_the_right_of_all_of_them(
    granted: tuple[str, ...], answer: LookupType
) -> None:
    async with serving(RULES) as served, BinaryClient.to(served.port) as client:
        allow(served, *granted)
        await client.ask(connect(PROXY, original_principal="app"))
        found = (await client.ask(lookup(TOPIC, original_principal="other"))).lookupTopicResponse
        assert found.response == answer
        if answer is LookupType.FAILED:
            assert found.error == ServerError.AuthorizationError
        same = (await client.ask(lookup(TOPIC, original_principal="app"))).lookupTopicResponse
        is_allowed = {"proxy", "app"} <= set(granted)
        assert (same.response == LookupType.CONNECT) is is_allowed


async def test_a_principal_of_a_command_counts_also_where_the_answer_is_in_memory() -> None:
    roles = ClusterRoles(super_users=frozenset({"proxy", "app"}), proxies=frozenset({"proxy"}))
    rules = replace(RULES, policy=replace(POLICY, roles=roles))
    async with serving(rules) as served, BinaryClient.to(served.port) as client:
        served.lookup.remembered[Topic.parse(TOPIC)] = SELF
        await client.ask(connect(PROXY, original_principal="app"))
        found = (await client.ask(lookup(TOPIC))).lookupTopicResponse
        assert found.response == LookupType.CONNECT
        named = (await client.ask(lookup(TOPIC, original_principal="other"))).lookupTopicResponse
        assert named.error == ServerError.AuthorizationError


@pytest.mark.parametrize("ask", [lookup, partitions])
async def test_a_client_that_is_not_a_proxy_names_nobody_else(ask: Any) -> None:
    async with serving(RULES) as served, BinaryClient.to(served.port) as client:
        allow(served, "app", "other")
        await client.ask(connect(APP))
        reply = await client.ask(ask(TOPIC, original_principal="other"))
        found = reply.lookupTopicResponse if ask is lookup else reply.partitionMetadataResponse
        assert found.error == ServerError.AuthorizationError
        assert "role app is not in proxyRoles" in found.message
        same = await client.ask(lookup(TOPIC, original_principal="app"))
        assert same.lookupTopicResponse.response == LookupType.CONNECT


async def test_a_principal_of_a_command_that_is_not_a_text_is_refused() -> None:
    async with serving(RULES) as served, BinaryClient.to(served.port) as client:
        allow(served, "proxy", "app")
        await client.ask(connect(PROXY, original_principal="app"))
        named = lookup(TOPIC, original_principal="~~~~").replace(b"~~~~", b"\xff\xfe\xfd\xfc")
        found = (await client.ask(named)).lookupTopicResponse
        assert found.error == ServerError.AuthorizationError
        assert "not UTF-8" in found.message


async def test_the_token_of_the_original_client_counts_and_not_the_name_that_the_proxy_says() -> (
    None
):
    async with serving(PROVING) as served, BinaryClient.to(served.port) as client:
        allow(served, "proxy", "root")
        await client.ask(connect(PROXY, **proven(APP)))
        found = (await client.ask(lookup(TOPIC))).lookupTopicResponse
        assert "role app may not lookup" in found.message
        allow(served, "proxy", "app")
        found = (await client.ask(lookup(TOPIC))).lookupTopicResponse
        assert found.response == LookupType.CONNECT
        # Without the setting the name is believed, as in Pulsar.
    async with serving(RULES) as served, BinaryClient.to(served.port) as client:
        allow(served, "proxy", "root")
        await client.ask(connect(PROXY, **proven(APP)))
        found = (await client.ask(lookup(TOPIC))).lookupTopicResponse
        assert found.response == LookupType.CONNECT


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ({"original_principal": "app"}, "has to authenticate by 'token', not by ''"),
        (proven(APP) | {"original_auth_method": "tls"}, "not by 'tls'"),
        (proven("a-secret-of-nobody"), "token of the original principal is not known"),
        (proven(PROXY), "cannot be in proxyRoles"),
        ({}, "has to name the original principal"),
    ],
)
async def test_an_original_principal_without_a_proof_ends_the_connection(
    named: dict[str, str], reason: str
) -> None:
    async with serving(PROVING) as served, BinaryClient.to(served.port) as client:
        refused = await client.ask(connect(PROXY, **named))
        assert refused.error.error == ServerError.AuthenticationError
        assert reason in refused.error.message


async def test_a_principal_of_a_command_needs_its_own_token_too() -> None:
    async with serving(PROVING) as served, BinaryClient.to(served.port) as client:
        allow(served, "proxy", "app", "other")
        await client.ask(connect(PROXY, **proven(APP)))
        named = (await client.ask(lookup(TOPIC, original_principal="other"))).lookupTopicResponse
        assert named.error == ServerError.AuthorizationError
        shown = (await client.ask(lookup(TOPIC, **proven(OTHER)))).lookupTopicResponse
        assert shown.response == LookupType.CONNECT


@pytest.mark.parametrize(("is_enabled", "is_refused"), [(True, True), (False, False)])
async def test_only_a_proxy_says_that_it_is_one_where_grants_count(
    is_enabled: bool, is_refused: bool
) -> None:
    rules = replace(RULES, policy=replace(POLICY, is_enabled=is_enabled))
    async with serving(rules) as served, BinaryClient.to(served.port) as client:
        reply = await client.ask(connect(APP, proxy_version="4.0"))
        assert (reply.type == CommandType.ERROR) is is_refused
    async with serving(rules) as served, BinaryClient.to(served.port) as client:
        named = connect(PROXY, original_principal="app", proxy_version="4.0")
        assert (await client.ask(named)).type == CommandType.CONNECTED


@pytest.mark.parametrize(
    ("own_s", "original_s", "end_s"), [(None, None, None), (5, None, 5), (None, 6, 6), (7, 6, 6)]
)
def test_a_connection_ends_with_the_first_of_both_proofs(
    own_s: float | None, original_s: float | None, end_s: float | None
) -> None:
    principal = Principal("proxy", Proof.JWT, own_s, "id")
    limited = OriginalPrincipal("app", original_s).limit(principal)
    assert limited == Principal("proxy", Proof.JWT, end_s, "id")


def test_connect_takes_over_the_end_of_the_forwarded_token() -> None:
    class Expiring:
        def authenticate(self, evidence: Evidence) -> Principal | None:
            if evidence.token == PROXY.encode():
                return Principal("proxy", Proof.STATIC_TOKEN)
            return Principal("app", Proof.JWT, 1234.0)

    sent = CommandConnect(
        client_version="c", auth_method_name="token", auth_data=PROXY.encode(), **proven(APP)
    )
    admitted = admit(sent, Authenticator([Expiring()]), PROVING.policy)
    assert isinstance(admitted, Admitted)
    assert admitted.principal == Principal("proxy", Proof.STATIC_TOKEN, 1234.0)
