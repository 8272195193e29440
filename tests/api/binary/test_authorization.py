"""Requests of the binary protocol need a grant, where grants count."""

import pytest

from broker_ctl.api.binary.dependencies import BinaryRules
from broker_ctl.api.binary.enums import CommandType, LookupType, MetadataType, ServerError
from broker_ctl.core.model.names import Topic
from broker_ctl.security.authentication import Authenticator
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
APP, PROXY = "a-secret-of-the-app", "a-secret-of-the-proxy"
AUTHENTICATOR = Authenticator([StaticTokens.parse(f"app:{APP}\nproxy:{PROXY}\n")])
POLICY = AuthorizationPolicy(ClusterRoles(proxies=frozenset({"proxy"})), is_enabled=True)
RULES = BinaryRules("test", AUTHENTICATOR, POLICY)
LIST = command(CommandType.GET_TOPICS_OF_NAMESPACE, request_id=3, namespace="t/ns", mode=0)


def connect(token: str, original: str = "") -> bytes:
    named = {"original_principal": original} if original else {}
    return command(
        CommandType.CONNECT,
        client_version="c",
        auth_method_name="token",
        auth_data=token.encode(),
        **named,
    )


def allow(served: Served, *roles: str) -> None:
    served.grants = Grants(
        namespace=NamespaceGrants({role: frozenset({"consume"}) for role in roles})
    )


async def test_a_client_without_a_grant_finds_nothing_out() -> None:
    async with serving(RULES) as served, BinaryClient.to(served.port) as client:
        served.assign(SELF, TOPIC)
        # An answer from memory needs the grant too.
        served.lookup.remembered[Topic.parse(TOPIC)] = SELF
        await client.ask(connect(APP))
        found = (await client.ask(lookup(TOPIC))).lookupTopicResponse
        assert (found.response, found.error) == (LookupType.FAILED, ServerError.AuthorizationError)
        assert not found.brokerServiceUrl
        assert "role app may not lookup topic" in found.message
        counted = (await client.ask(partitions(TOPIC))).partitionMetadataResponse
        assert (counted.response, counted.error) == (
            MetadataType.FAILED,
            ServerError.AuthorizationError,
        )
        listed = (await client.ask(LIST)).error
        assert listed.error == ServerError.AuthorizationError
        assert served.topics.asked == []


async def test_a_grant_is_enough_also_on_the_same_connection() -> None:
    async with serving(RULES) as served, BinaryClient.to(served.port) as client:
        served.assign(SELF, TOPIC)
        await client.ask(connect(APP))
        assert (await client.ask(lookup(TOPIC))).lookupTopicResponse.response == LookupType.FAILED
        allow(served, "app")
        assert (await client.ask(lookup(TOPIC))).lookupTopicResponse.response == LookupType.CONNECT
        counted = (await client.ask(partitions(TOPIC))).partitionMetadataResponse
        assert counted.response == MetadataType.SUCCESS
        assert (await client.ask(LIST)).type == CommandType.GET_TOPICS_OF_NAMESPACE_RESPONSE


@pytest.mark.parametrize(
    ("granted", "answer"),
    [
        (("proxy",), LookupType.FAILED),
        (("app",), LookupType.FAILED),
        (("proxy", "app"), LookupType.CONNECT),
    ],
)
async def test_a_proxy_and_its_original_principal_both_need_a_grant(
    granted: tuple[str, ...], answer: LookupType
) -> None:
    async with serving(RULES) as served, BinaryClient.to(served.port) as client:
        served.assign(SELF, TOPIC)
        allow(served, *granted)
        await client.ask(connect(PROXY, "app"))
        assert (await client.ask(lookup(TOPIC))).lookupTopicResponse.response == answer


@pytest.mark.parametrize(("token", "original"), [(PROXY, ""), (PROXY, "proxy"), (APP, "root")])
async def test_an_invalid_original_principal_ends_the_connection(token: str, original: str) -> None:
    async with serving(RULES) as served, BinaryClient.to(served.port) as client:
        refused = await client.ask(connect(token, original))
        assert refused.type == CommandType.ERROR
        assert refused.error.error == ServerError.AuthenticationError
        assert "riginal principal" in refused.error.message
