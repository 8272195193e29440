"""Attacks on every route: what a stranger, another web page or a broker sends to each of them."""

import logging
import re
from collections.abc import Iterator

import pytest
from yarl import URL

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.access.route_rules import Exempt, Rule
from broker_ctl.api.http.limits.requests import RequestClasses, _is_urgent
from broker_ctl.clock import SystemClock
from broker_ctl.security.authorization import Operation
from broker_ctl.security.signed_requests import HEADER, START_HEADER, RequestSigner
from broker_ctl.settings.publishing import PortRole
from tests.security.surface.conftest import KEYS, TOKENS
from tests.support.clusters.fake_services import Broker
from tests.support.security.surface import REACHED, ROUTE_OF, ROUTES, Asker, Route, bearer

# What brokers send each other, beside commands (docs: threat-peers).
FORWARDED = {
    "GET /control/v1/topics/{tenant}/{namespace}",
    "PUT /admin/v2/namespaces/{tenant}/{namespace}/{bundle}/unload",
    "PUT /admin/v2/{domain}/{tenant}/{namespace}/{topic}/unload",
}
EVIL = "https://evil.example"
FOREIGN = (
    f"Origin: {EVIL}",
    "Origin: null",
    "Sec-Fetch-Site: cross-site",
    "Sec-Fetch-Site: same-site",
)
OPERATORS = {"read", "monitor", "lookup", "move", "split", "drain", "pause", "plan"}
VIEWERS = {"read", "monitor"}


def spellings(path: str) -> Iterator[str]:
    """Other ways to write a path that some server takes for the same."""
    first = path[1]
    yield f"/%{ord(first):02x}{path[2:]}"
    yield f"/%25{ord(first):02x}{path[2:]}"
    yield f"/{path}"
    yield f"/.{path}"
    yield f"/livez/..{path}"
    yield f"/livez/%2e%2e{path}"
    yield f"/livez/..%2f{path[1:]}"
    yield f"{path}/"
    yield f"{path}/."
    yield f"{path};x=y"
    yield f"{path}%00"
    yield f"{path}%20"
    yield f"{path}?x"
    yield path.replace("/", "%2f").replace("%2f", "/", 1)
    yield path.replace("/", "\\").replace("\\", "/", 1)
    yield path.upper()
    yield f"http://localhost{path}"
    yield f"{path}#/livez"


def may(role: str, route: Route) -> bool:
    """Whether a role reaches a handler, without grants; written without the policy."""
    if route.is_open:
        return True
    if not role or route.access is Exempt.DATA_PLANE:
        return False
    if not isinstance(route.access, Rule) or role == "admin":
        return True
    operation = route.access.operation.value
    ready = {"operator": OPERATORS, "viewer": VIEWERS}.get(role, set())
    return operation in ready | {"read", "lookup"}


@pytest.mark.parametrize("role", ["", "nobody", "viewer", "operator"])
async def test_no_spelling_of_any_path_reaches_what_its_role_may_not(
    harmless: Broker, role: str
) -> None:
    asker = Asker(harmless.url, *([bearer(TOKENS[role])] if role else []))
    wrong: list[str] = []
    reached: set[str] = set()
    for route in ROUTES:
        for method in (route.method, "HEAD") if route.method == "GET" else (route.method,):
            for path in spellings(route.path()):
                answer = await asker.ask(method, path)
                if answer.status != REACHED:
                    # Nor does any of them break the server.
                    assert answer.status < 500 or answer.status == 501, (method, path, answer)
                    continue
                found = route if method == "HEAD" else ROUTE_OF[method, answer.body.decode()]
                reached.add(str(found))
                if not may(role, found):
                    wrong.append(f"{method} {path}: {found}")
    asker.close()
    assert wrong == []
    assert reached


async def test_every_port_refuses_every_route_of_another_port(harmless: Broker) -> None:
    api = harmless.api
    assert isinstance(api, ApiServer)
    wrong: list[tuple[PortRole, str, int]] = []
    for role in PortRole:
        asker = Asker(f"http://127.0.0.1:{api.port_of(role)}", bearer(TOKENS["admin"]))
        for route in ROUTES:
            answer = await asker.ask(route.method, route.path())
            is_refused = answer.status == 403 and b'"OtherPort"' in answer.body
            if is_refused is is_served(role, route):
                wrong.append((role, str(route), answer.status))
        asker.close()
    assert wrong == []


def is_served(role: PortRole, route: Route) -> bool:
    """Whether a port serves a route, where all three have ports of their own."""
    if route.access is Exempt.HEALTH:
        return True
    if route.access is Exempt.METRICS or role is PortRole.METRICS:
        return route.access is Exempt.METRICS and role is PortRole.METRICS
    return role is PortRole.ADMIN or route.is_of_client


async def test_a_signature_of_a_broker_opens_no_route_but_those_of_brokers(
    harmless: Broker,
) -> None:
    signer = RequestSigner(KEYS, "127.0.0.1:1")
    api = harmless.api
    assert isinstance(api, ApiServer)
    asker = Asker(f"http://127.0.0.1:{api.port_of(PortRole.ADMIN)}")
    start = ""
    reached: set[str] = set()
    for route in ROUTES:
        if route.is_open:
            continue
        for _ in range(2):
            sent = signer.sign(
                harmless.broker_id,
                route.method,
                route.path(),
                b"",
                SystemClock().wall_ms(),
                start=start,
            )
            answer = await asker.ask(route.method, route.path(), [f"{HEADER}: {sent[HEADER]}"])
            if answer.status != 425:
                break
            start = re.search(rf"{START_HEADER.lower()}: (\S+)", answer.head)[1]  # type: ignore[index]
        if answer.status == REACHED:
            reached.add(str(route))
        else:
            assert answer.status in {401, 403}, (route, answer)
    asker.close()
    commands = {str(route) for route in ROUTES if is_command(route)}
    # What depends on nothing is for every role, that of brokers among them.
    of_all = {str(route) for route in ROUTES if route.access is Exempt.AUTHENTICATED}
    assert reached - of_all == commands | FORWARDED


def is_command(route: Route) -> bool:
    return isinstance(route.access, Rule) and route.access.operation is Operation.COMMAND


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, identity", "x"])
async def test_no_route_takes_a_compressed_body(without_roles: Broker, coding: str) -> None:
    asker = Asker(without_roles.url, f"Content-Encoding: {coding}")
    for route in ROUTES:
        answer = await asker.ask(route.method, route.path(), body=b"\x1f\x8b\x08\x00")
        assert answer.status == 415, (route, answer)
    asker.close()


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:80", "127.1", "[evil]"])
async def test_no_route_is_served_under_a_foreign_name(without_roles: Broker, host: str) -> None:
    asker = Asker(without_roles.url)
    for route in ROUTES:
        answer = await asker.ask(route.method, route.path(), [f"Host: {host}"])
        assert answer.status == 421, (route, answer)
    asker.close()


@pytest.mark.parametrize("page", FOREIGN)
async def test_a_page_of_another_site_reaches_no_change_and_no_lookup(
    without_roles: Broker, page: str
) -> None:
    asker = Asker(without_roles.url)
    reached: set[str] = set()
    for route in ROUTES:
        for method in (route.method, "HEAD") if route.method == "GET" else (route.method,):
            answer = await asker.ask(method, route.path(), [page])
            if answer.status == REACHED:
                reached.add(str(route))
            else:
                assert (answer.status, "CrossOrigin" in str(answer)) == (403, method != "HEAD")
    asker.close()
    acquiring = {str(route) for route in ROUTES if route.pattern.startswith("/lookup/")}
    assert reached == {str(route) for route in ROUTES if not route.is_change} - acquiring
    assert len(acquiring) == 4


async def test_no_route_waits_for_the_body_of_a_stranger(secured: Broker) -> None:
    api = secured.api
    assert isinstance(api, ApiServer)
    for route in ROUTES:
        if route.is_open:
            continue
        asker = Asker(secured.url)
        # 99 bytes of it never come. A body has ten seconds, and an answer has less here.
        answer = await asker.ask(route.method, route.path(), ["Content-Length: 100"], b"{")
        assert answer.status == 401, (route, answer)
        asker.close()
    assert api._request_classes.in_flight == 0


def test_what_is_open_shares_no_place_with_what_needs_a_proof() -> None:
    classes = RequestClasses(10)
    found: dict[str, set[str]] = {}
    for route in ROUTES:
        request = Requested(route)
        limit, _ = classes.of(request, route.access)  # type: ignore[arg-type]
        name = next(name for name, each in classes.by_name.items() if each is limit)
        kind = "open" if route.is_open or route.access is Exempt.DATA_PLANE else "proven"
        found.setdefault(name, set()).add(kind)
    assert found == {
        "clients": {"proven"},
        "brokers": {"proven"},
        "probes": {"open"},
        "console": {"open"},
    }


class Requested:
    """The part of a request by which its limit is chosen."""

    def __init__(self, route: Route) -> None:
        self.method = route.method
        self.rel_url = URL(route.path())


async def test_each_change_is_in_the_log_with_its_user_address_and_result(
    harmless: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    api = harmless.api
    assert isinstance(api, ApiServer)
    asker = Asker(f"http://127.0.0.1:{api.port_of(PortRole.ADMIN)}", bearer(TOKENS["admin"]))
    changes = [route for route in ROUTES if route.is_change and not route.is_open]
    for route in changes:
        caplog.clear()
        with caplog.at_level(logging.INFO):
            answer = await asker.ask(route.method, route.path())
            dry = await asker.ask(route.method, f"{route.path()}?dry_run=true")
        line = f"admin at 127.0.0.1: {route.method} {route.path()!r}: {answer.status}"
        if answer.status == REACHED:
            assert caplog.messages == [line]
        else:
            # Brokers sign their commands, and this cluster takes no others.
            assert (answer.status, dry.status, is_command(route)) == (401, 401, True)
    asker.close()
    assert len(changes) > 40


def test_what_the_cluster_lives_by_goes_first_and_nothing_of_a_client_does() -> None:
    urgent = {str(route) for route in ROUTES if _is_urgent(Waiting(route))}  # type: ignore[arg-type]
    wanted = {
        str(route)
        for route in ROUTES
        if is_command(route) or route.access in {Exempt.HEALTH, Exempt.DATA_PLANE}
    }
    assert wanted <= urgent
    of_clients = {str(route) for route in ROUTES if not route.pattern.startswith("/control/")}
    assert urgent & of_clients <= wanted


class Waiting:
    """The part of a request by which its turn is chosen."""

    def __init__(self, route: Route) -> None:
        self.method, self.path = route.method, route.path()
