"""``/openapi.json``: every route with what it takes and answers, and nothing that is not served."""

import re
from collections.abc import Iterator
from typing import Any

from aiohttp import web

from broker_ctl.api.http.access.route_rules import ROUTE_RULES, Exempt, Rule
from broker_ctl.api.openapi.declared import DECLARED
from broker_ctl.api.openapi.document import build, operation_id
from broker_ctl.api.openapi.schemas import SCHEMAS
from broker_ctl.core.model.field_kinds import TENANT_INFO
from broker_ctl.http_client import HttpClient
from docs._ext.reference_http import query_parameters, readable, routes
from tests.support.clusters.fake_services import serving_brokers
from tests.support.http.web_server import free_port
from tests.support.rules.families import for_each

SERVED = [route for route in routes() if not route.path.startswith("/ui")]
DOCUMENT = build(SERVED, "1.2.3")


def key_of(route: web.RouteDef) -> str:
    return f"{route.method} {readable(route.path)}"


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            yield f"{method.upper()} {path}", operation


OPERATIONS = dict(operations())


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].rpartition("/")[2]
        for member in value.values():
            yield from references(member)
    elif isinstance(value, list):
        for member in value:
            yield from references(member)


def test_each_route_is_described_and_each_row_is_a_route() -> None:
    served = {key_of(route) for route in SERVED}
    assert served == set(DECLARED)
    assert served == set(OPERATIONS)
    assert len(served) > 90


@for_each("route", SERVED)
def test_each_parameter_that_a_handler_reads_is_described(route: web.RouteDef) -> None:
    operation = OPERATIONS[key_of(route)]
    described: dict[str, set[str]] = {"path": set(), "query": set()}
    for parameter in operation["parameters"]:
        described[parameter["in"]].add(parameter["name"])
    # Between brokers, as a part of a redirect.
    assert query_parameters(route.handler) <= described["query"]
    assert described["path"] == set(re.findall(r"\{(\w+)\}", readable(route.path)))


@for_each("key", OPERATIONS)
def test_each_operation_says_who_may_call_it_and_how_it_fails(key: str) -> None:
    operation = OPERATIONS[key]
    method, path = key.split()
    access = ROUTE_RULES[method, path]
    permission = operation["x-permission"]
    if isinstance(access, Rule):
        assert permission["operation"] == access.operation
        assert {"401", "403"} <= operation["responses"].keys()
    else:
        assert permission == {"open_to": access.name.lower()}
        assert (operation["security"] == []) is (access in {Exempt.HEALTH, Exempt.METRICS})
    assert {"429", "503"} <= operation["responses"].keys()
    assert operation["summary"]


def test_names_of_operations_are_unique_and_every_schema_is_there_and_used() -> None:
    names = [operation["operationId"] for operation in OPERATIONS.values()]
    assert len(set(names)) == len(names)
    assert operation_id("GET", "/admin/v2/tenants/{tenant}") == "getAdminV2TenantsTenant"
    assert set(references(DOCUMENT)) == set(SCHEMAS) | set(DOCUMENT["components"]["responses"])


def test_bodies_of_pulsar_are_those_that_the_handlers_check() -> None:
    schema = DOCUMENT["components"]["schemas"]["TenantInfo"]
    assert schema["properties"].keys() == TENANT_INFO.keys()
    created = OPERATIONS["PUT /admin/v2/tenants/{tenant}"]
    assert set(created["responses"]) >= {"200", "204", "400", "409", "412", "413"}
    assert "dry_run" in {parameter["name"] for parameter in created["parameters"]}


async def test_a_daemon_serves_the_document_of_its_own_routes(http: HttpClient) -> None:
    async with serving_brokers([free_port()]) as [broker]:
        reply = await http.request("GET", f"{broker.url}/openapi.json")
    assert reply.status == 200
    document = reply.json()
    assert document["openapi"] == "3.1.0"
    assert document["paths"].keys() == DOCUMENT["paths"].keys()
