"""Decisions of the policy: ready roles, grants of tenants and namespaces, proxies."""

import pytest

from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.security.authorization import (
    ALLOWED,
    CLUSTER,
    Authorization,
    AuthorizationPolicy,
    Client,
    ClusterRoles,
    Grants,
    NamespaceGrants,
    Operation,
    Resource,
    no_grants,
)

ROLES = ClusterRoles(
    super_users=frozenset({"root"}),
    operators=frozenset({"op"}),
    viewers=frozenset({"view"}),
    proxies=frozenset({"proxy", "other-proxy"}),
)
NAMESPACE = Namespace("t", "ns")
TOPIC = Topic("persistent", NAMESPACE, "orders")
TENANT = Resource.of_tenant("t")
SPACE = Resource.of_namespace(NAMESPACE)
ORDERS = Resource.of_topic(TOPIC)
BROKER = Resource.of_broker("b:1")
EVERY_RESOURCE = (CLUSTER, BROKER, TENANT, SPACE, ORDERS)
WRITES = frozenset(Operation) - {
    Operation.LOOKUP,
    Operation.READ,
    Operation.READ_SENSITIVE,
    Operation.MONITOR,
}
GRANTS = Grants(
    frozenset({"tenant-admin"}),
    NamespaceGrants(
        {
            "producer": frozenset({"produce"}),
            "consumer": frozenset({"consume"}),
            "function": frozenset({"functions", "sources", "sinks"}),
            "team-*": frozenset({"consume"}),
            "*-batch": frozenset({"produce"}),
        },
        {str(TOPIC): {"one-topic": frozenset({"consume"}), "by-*": frozenset({"produce"})}},
    ),
)


def allowed(
    role: str, resource: Resource, *, is_enabled: bool = True, is_wildcard: bool = False
) -> set[Operation]:
    policy = AuthorizationPolicy(ROLES, is_enabled, is_wildcard)
    return {
        operation
        for operation in Operation
        if policy.decide(role, operation, resource, GRANTS).is_allowed
    }


@pytest.mark.parametrize("is_enabled", [True, False])
def test_ready_roles_have_their_operations_on_all_resources(is_enabled: bool) -> None:
    for resource in EVERY_RESOURCE:
        assert allowed("root", resource, is_enabled=is_enabled) == set(Operation)
        assert allowed("op", resource, is_enabled=is_enabled) == {
            *(Operation.LOOKUP, Operation.READ, Operation.MONITOR, Operation.MOVE),
            *(Operation.SPLIT, Operation.DRAIN, Operation.PAUSE, Operation.PLAN),
        }
        assert allowed("view", resource) == {Operation.READ, Operation.MONITOR}


def test_without_grants_everybody_with_a_role_reads_and_looks_up_and_changes_nothing() -> None:
    for role in ("nobody", "tenant-admin", "producer"):
        for resource in EVERY_RESOURCE:
            found = allowed(role, resource, is_enabled=False)
            assert found == {Operation.READ, Operation.LOOKUP}
            assert allowed("nobody", resource) == set()


def test_an_admin_of_a_tenant_has_all_below_it_but_what_happens_to_brokers() -> None:
    for resource in (SPACE, ORDERS):
        assert allowed("tenant-admin", resource) == set(Operation) - {
            *(Operation.COMMAND, Operation.MOVE, Operation.SPLIT)
        }
    assert allowed("tenant-admin", TENANT) == {Operation.READ, Operation.READ_SENSITIVE}
    assert not WRITES & allowed("tenant-admin", TENANT)
    for resource in (CLUSTER, BROKER):
        assert allowed("tenant-admin", resource) == set()


def test_who_may_produce_or_consume_may_look_up_and_nothing_else() -> None:
    for role in ("producer", "consumer"):
        assert allowed(role, ORDERS) == {Operation.LOOKUP}
    assert allowed("function", ORDERS) == set()
    assert allowed("consumer", SPACE) == {Operation.LOOKUP}
    assert allowed("producer", SPACE) == {Operation.LOOKUP}
    for resource in (TENANT, CLUSTER, BROKER):
        assert allowed("consumer", resource) == set()


def test_a_grant_on_a_topic_is_for_this_topic_and_its_partitions() -> None:
    assert allowed("one-topic", ORDERS) == {Operation.LOOKUP}
    partition = Topic("persistent", NAMESPACE, "orders-partition-12")
    assert allowed("one-topic", Resource.of_topic(partition)) == {Operation.LOOKUP}
    for local in ("orders2", "orders-partition-x", "partition-1", "orders-partition-1\n"):
        assert (
            allowed("one-topic", Resource.of_topic(Topic("persistent", NAMESPACE, local))) == set()
        )
    # As in Pulsar, a pattern is for the topic itself.
    assert allowed("by-me", ORDERS, is_wildcard=True) == {Operation.LOOKUP}
    assert allowed("by-me", Resource.of_topic(partition), is_wildcard=True) == set()
    other = Topic("non-persistent", NAMESPACE, "orders")
    assert allowed("one-topic", Resource.of_topic(other)) == set()
    assert allowed("one-topic", SPACE) == set()


@pytest.mark.parametrize(
    ("role", "is_matched"),
    [
        ("team-a", True),
        ("team-", True),
        ("xteam-a", False),
        ("night-batch", True),
        ("night-batch2", False),
        ("by-night", True),
        ("nobody", False),
    ],
)
def test_wildcards_count_only_with_their_setting(role: str, is_matched: bool) -> None:
    assert bool(allowed(role, ORDERS, is_wildcard=True)) is is_matched
    assert allowed(role, ORDERS) == set()
    # What a stored text in the middle would match is not given to it.
    assert allowed("team-*", ORDERS) == {Operation.LOOKUP}


@pytest.mark.parametrize(
    ("role", "original", "is_valid"),
    [
        ("proxy", "app", True),
        ("proxy", "", False),
        ("proxy", "proxy", False),
        ("proxy", "other-proxy", False),
        ("app", "", True),
        ("app", "app", True),
        ("app", "root", False),
        ("root", "app", False),
    ],
)
def test_only_proxies_name_an_original_principal(role: str, original: str, is_valid: bool) -> None:
    error = AuthorizationPolicy(ROLES).original_principal_error(role, original)
    assert (error is None) is is_valid


async def test_a_proxy_may_only_what_both_roles_may() -> None:
    async def grants_of(_: Resource) -> Grants:
        return GRANTS

    policy = AuthorizationPolicy(ROLES, is_enabled=True)
    known = Authorization(policy, grants_of, lambda _: GRANTS)
    unknown = Authorization(policy, grants_of)

    async def may(role: str, original: str) -> bool:
        client = Client(role, original)
        decision = await unknown.allows(client, Operation.LOOKUP, ORDERS)
        # Memory decides alike, or not at all.
        assert known.recall(client, Operation.LOOKUP, ORDERS) == decision
        assert unknown.recall(client, Operation.LOOKUP, ORDERS) in {None, decision}
        return decision.is_allowed

    assert await may("producer", "consumer")
    assert not await may("proxy", "producer")
    assert not await may("producer", "nobody")
    assert await may("root", "producer")
    assert not await may("root", "nobody")


def test_a_denial_names_role_operation_resource_and_the_setting() -> None:
    decision = AuthorizationPolicy(ROLES).decide("nobody", Operation.DRAIN, BROKER, Grants())
    assert decision.reason == (
        "role nobody may not drain broker b:1: it is not in operatorRoles or superUserRoles"
    )


@pytest.mark.parametrize("is_wildcard", [False, True])
def test_a_right_that_is_known_is_one_on_every_topic_of_the_namespace(is_wildcard: bool) -> None:
    current = GRANTS
    policy = AuthorizationPolicy(ROLES, is_enabled=True, is_wildcard=is_wildcard)
    authorization = Authorization(
        policy, no_grants, lambda _: current, lambda grants: grants is current
    )
    other = Resource.of_topic(Topic("persistent", NAMESPACE, "other"))
    known = set()
    for role in ("producer", "one-topic", "by-me", "tenant-admin", "team-a", "function", "nobody"):
        for operation in Operation:
            client = Client(role)
            asked = authorization.recall(client, operation, ORDERS)
            assert asked == policy.decide(role, operation, ORDERS, GRANTS)
            if not authorization.knows_right(client, operation, NAMESPACE):
                continue
            known.add((role, operation))
            assert policy.decide(role, operation, other, GRANTS).is_allowed
            assert not authorization.knows_right(client, operation, Namespace("t", "other"))
            assert not any(
                authorization.knows_right(client, another, NAMESPACE)
                for another in set(Operation) - {operation}
            )
    assert ("producer", Operation.LOOKUP) in known
    assert ("tenant-admin", Operation.DELETE) in known
    assert (("team-a", Operation.LOOKUP) in known) == is_wildcard
    assert {"one-topic", "by-me", "function", "nobody"}.isdisjoint({role for role, _ in known})


def test_a_known_right_ends_with_its_grants() -> None:
    current = [GRANTS]
    authorization = Authorization(
        AuthorizationPolicy(ROLES, is_enabled=True),
        no_grants,
        lambda _: current[0],
        lambda grants: grants is current[0],
    )
    client = Client("producer")
    assert authorization.recall(client, Operation.LOOKUP, ORDERS) == ALLOWED
    assert authorization.knows_right(client, Operation.LOOKUP, NAMESPACE)
    current[0] = Grants()
    assert not authorization.knows_right(client, Operation.LOOKUP, NAMESPACE)
    denied = authorization.recall(client, Operation.LOOKUP, ORDERS)
    assert denied is not None
    assert not denied.is_allowed
    assert not authorization.knows_right(client, Operation.LOOKUP, NAMESPACE)


def test_no_right_of_a_proxy_is_kept() -> None:
    authorization = Authorization(
        AuthorizationPolicy(ROLES, is_enabled=True), no_grants, lambda _: GRANTS, lambda _: True
    )
    client = Client("producer", "consumer")
    assert authorization.recall(client, Operation.LOOKUP, ORDERS) == ALLOWED
    assert not authorization.knows_right(client, Operation.LOOKUP, NAMESPACE)
