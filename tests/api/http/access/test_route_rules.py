"""Every route of every server has a rule, and every rule a route."""

from collections.abc import Iterable
from unittest.mock import Mock

from aiohttp import web

from broker_ctl.api.http.access import route_rules
from broker_ctl.api.http.access.route_rules import ROUTE_RULES, Exempt, Rule, access_of
from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.attach.server import AttachedApiServer, AttachedDependencies
from broker_ctl.security.authorization import Operation
from tests.support.clusters.fake_services import CLUSTER, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.rules.families import for_each

CONSOLE_FORMS = {"/ui/act", "/ui/sign-in", "/ui/sign-out"}


def routes_of(defined: Iterable[web.AbstractRouteDef]) -> set[tuple[str, str]]:
    router = web.UrlDispatcher()
    router.add_routes(defined)
    return {
        (route.method, resource.canonical)
        for resource in router.resources()
        for route in resource
        if route.method != "HEAD"
    }


async def served() -> set[tuple[str, str]]:
    async with serving_brokers([free_port()]) as [broker]:
        assert broker.api is not None
        routes = routes_of(broker.api.routes())
        # Only the names of its routes are asked for.
        dependencies = Mock(spec=AttachedDependencies, instruments=broker.instruments)
        attached = AttachedApiServer(dependencies, ApiRules(CLUSTER))
    return routes | routes_of(attached.routes())


async def test_each_route_has_a_rule_and_each_rule_a_route() -> None:
    routes = await served()
    assert routes - set(ROUTE_RULES) == set()
    assert set(ROUTE_RULES) - routes == set()
    assert len(routes) > 90


def test_no_route_has_two_rules() -> None:
    lines = [*route_rules._EXEMPT.values(), *route_rules._RULES.values()]
    rules = [route for each in lines for route in route_rules._routes_of(each)]
    assert len(rules) == len(set(rules))


def test_only_the_health_is_open_without_a_setting() -> None:
    health = {path for (_, path), access in ROUTE_RULES.items() if access is Exempt.HEALTH}
    assert health == {
        "/livez",
        "/readyz",
        "/status.html",
        "/admin/v2/brokers/health",
        "/admin/v2/brokers/ready",
    }


@for_each(("method", "path"), sorted(ROUTE_RULES))
def test_reads_and_writes_have_operations_of_their_kind(method: str, path: str) -> None:
    access = ROUTE_RULES[method, path]
    reads = {Operation.LOOKUP, Operation.READ, Operation.READ_SENSITIVE, Operation.MONITOR}
    if isinstance(access, Rule):
        assert (access.operation in reads) is (method == "GET")
    else:
        # What a page of the console sends has to be from such a page, and acts as its client.
        assert method == "GET" or (access is Exempt.CONSOLE and path in CONSOLE_FORMS)


def test_a_head_needs_what_a_get_needs_and_an_unknown_route_what_a_super_user_has() -> None:
    assert access_of("/control/v1/status", "HEAD") == access_of("/control/v1/status", "GET")
    added = access_of("/control/v1/added", "GET")
    assert isinstance(added, Rule)
    assert added.operation is Operation.CONFIGURE
    assert access_of("unknown", "PUT") is Exempt.AUTHENTICATED
