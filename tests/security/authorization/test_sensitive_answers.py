"""A route is judged by what its answer contains, as it is declared, and not by its path."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from broker_ctl.api.http.access.route_rules import ROUTE_RULES, Exempt, Rule
from broker_ctl.api.openapi.declared import DECLARED
from broker_ctl.api.openapi.schemas import SCHEMAS
from broker_ctl.security.authorization import Operation

# Fields with credentials, or with the roles that have a right.
SENSITIVE_FIELDS: Final = re.compile(
    r"secret|password|credential|token(?!$)|auth|admin_?roles|super_?user|offload", re.IGNORECASE
)
# Objects whose names are roles.
SENSITIVE_SCHEMAS: Final = {"#Permissions"}
# Answers without declared fields, of routes that every role may read, and what they have.
UNDECLARED: Final = {
    "GET /admin/v2/brokers/{cluster}/{broker}/ownedNamespaces": "bundles of a broker",
    "GET /admin/v2/broker-stats/load-report": "the load of this broker, and its bundles",
    "GET /admin/v2/broker-stats/topics": "the rates of topics",
    "GET /admin/v2/brokers/configuration/values": "overrides; those of unknown keys are hidden",
    "GET /openapi.json": "what is in this test",
    "GET /admin/v2/brokers/configuration/runtime": "no setting of security, and no path",
}
# Every role has these where no grants count.
OF_EVERY_ROLE: Final = {Operation.LOOKUP, Operation.READ}


def fields(schema: Mapping[str, Any]) -> Iterator[str]:
    """The names of all fields below a schema, and of the schemas that it refers to."""
    if name := str(schema.get("$ref", "")).rpartition("/")[2]:
        yield f"#{name}"
        yield from fields(SCHEMAS[name])
    for field, value in schema.get("properties", {}).items():
        yield field
        yield from fields(value)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            yield from fields(schema[key])
    for key in ("anyOf", "oneOf"):
        for one in schema.get(key, ()):
            yield from fields(one)


def is_undeclared(schema: Mapping[str, Any]) -> bool:
    """Whether an answer may have any fields, or any texts by name."""
    if "$ref" in schema:
        return is_undeclared(SCHEMAS[schema["$ref"].rpartition("/")[2]])
    if schema.get("type") == "array":
        return is_undeclared(schema["items"])
    if isinstance(values := schema.get("additionalProperties"), Mapping):
        return values.get("type") == "string" or is_undeclared(values)
    return schema.get("type") == "object" and not schema.get("properties")


READS: Final = {
    f"{method} {path}": access
    for (method, path), access in ROUTE_RULES.items()
    if method == "GET" and f"{method} {path}" in DECLARED
}


@pytest.mark.parametrize("route", sorted(READS))
def test_what_names_roles_or_holds_credentials_is_for_super_users_and_their_admins(
    route: str,
) -> None:
    access, answer = READS[route], DECLARED[route].answer
    if answer is None:
        return
    found = set(fields(answer))
    is_sensitive = bool(found & SENSITIVE_SCHEMAS) or any(
        SENSITIVE_FIELDS.search(one) for one in found if not one.startswith("#")
    )
    if is_sensitive:
        assert isinstance(access, Rule)
        assert access.operation is Operation.READ_SENSITIVE


def test_the_rule_finds_what_it_is_for() -> None:
    found = {
        route
        for route, access in READS.items()
        if isinstance(access, Rule) and access.operation is Operation.READ_SENSITIVE
    }
    assert {
        "GET /admin/v2/namespaces/{tenant}/{namespace}",
        "GET /admin/v2/namespaces/{tenant}/{namespace}/permissions",
        "GET /admin/v2/tenants/{tenant}",
        "GET /admin/v2/clusters/{cluster}",
    } <= found


def test_what_every_role_may_read_says_what_it_has() -> None:
    open_to_all = {
        route
        for route, access in READS.items()
        if access is Exempt.AUTHENTICATED
        or (isinstance(access, Rule) and access.operation in OF_EVERY_ROLE)
    }
    undeclared = {
        route
        for route in open_to_all
        if (answer := DECLARED[route].answer) is not None and is_undeclared(answer)
    }
    assert undeclared - UNDECLARED.keys() == set()
    assert UNDECLARED.keys() <= undeclared
