"""``/openapi.json``: made from the route table, the rules of access and the declared bodies."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.access.route_rules import Exempt, access_of, resource_kind_of
from broker_ctl.api.http.request_params import PARAMETER, has_dry_run
from broker_ctl.api.openapi.declared import DECLARED, DeclaredRoute
from broker_ctl.api.openapi.schemas import FLAG, SCHEMAS, TEXT, Schema, or_null, ref
from broker_ctl.codec import encode

# The document: from the route table, the rules of access and the declared bodies.


_JSON: Final = "application/json"
_VARIABLE: Final = re.compile(r"\{(\w+)(?::((?:[^{}]|\{[^{}]*\})*))?\}")
_ERROR: Final = {_JSON: {"schema": ref("Error")}}
# Names of these are parsed: 412 for what is not one, 404 where there is none.
_NAMED: Final = frozenset({"namespace", "topic", "bundle"})
# Without a body of their own; the statuses of a load balancer.
_OPEN: Final = frozenset({Exempt.HEALTH, Exempt.METRICS})
_REASONS: Final[Mapping[int, str]] = {
    200: "Done.",
    204: "Done; there is nothing to return.",
    307: "Another broker answers: Location has its address.",
    400: "The request is not well formed.",
    401: "Authentication is required.",
    403: "The role may not do this, or this port does not serve it.",
    404: "There is no such thing.",
    405: "Not allowed here.",
    406: "The number is not acceptable.",
    408: "The body was not sent in time.",
    409: "It conflicts with what is there.",
    412: "A name or a value is not valid, or a condition does not hold.",
    413: "The body is too large.",
    422: "The number cannot be applied.",
    429: "Too many requests; Retry-After has the seconds to wait.",
    501: "The broker process has this, not its daemon.",
    503: "Not now: retry after Retry-After seconds.",
}


def build(routes: Iterable[web.RouteDef], version: str) -> dict[str, Any]:
    """The document of these routes; those of the console are pages and are left out."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = _VARIABLE.sub(r"{\1}", route.path)
        declared = DECLARED.get(f"{route.method} {path}")
        if declared is not None:
            paths.setdefault(path, {})[route.method.lower()] = _operation(route, path, declared)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "broker-ctl",
            "version": version,
            "description": "The HTTP API of a daemon. Paths below /admin and /lookup are Pulsar's.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        # Of the daemon that served the document.
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": dict(SCHEMAS),
            "responses": {str(status): _error(status) for status in _REASONS if status > 299},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: web.RouteDef, path: str, declared: DeclaredRoute) -> dict[str, Any]:
    access = access_of(path, route.method)
    summary = " ".join((inspect.getdoc(route.handler) or "").partition("\n\n")[0].split())
    operation: dict[str, Any] = {
        "operationId": operation_id(route.method, path),
        "summary": summary,
        "tags": [_tag(path)],
        "parameters": [*_path_parameters(route.path), *_query_parameters(route, declared)],
        "responses": _responses(route, path, declared),
        # Where authentication is off, no token is needed.
        "security": [] if access in _OPEN else [{}, {"token": []}],
    }
    if isinstance(access, Exempt):
        operation["x-permission"] = {"open_to": access.name.lower()}
    else:
        kind = resource_kind_of(access)
        operation["x-permission"] = {"operation": access.operation, "resource": kind}
    if declared.body is not None:
        # null says as little as no body.
        schema = declared.body if declared.is_required else or_null(declared.body)
        content = {_JSON: {"schema": schema}}
        operation["requestBody"] = {"required": declared.is_required, "content": content}
    return operation


def operation_id(method: str, path: str) -> str:
    """The name that generated clients give the call: getAdminV2NamespacesTenantNamespace."""
    words = re.findall(r"[A-Za-z0-9]+", path)
    return method.lower() + "".join(word[0].upper() + word[1:] for word in words)


def _tag(path: str) -> str:
    first = path.split("/")[1]
    if path.startswith("/control/v1/partitions"):
        return "partitions"
    return (
        first if first in {"admin", "control", "lookup", "partitions", "dataplane"} else "process"
    )


def _path_parameters(path: str) -> Iterator[dict[str, Any]]:
    for name, pattern in _VARIABLE.findall(path):
        schema: Schema = {**TEXT, "pattern": f"^(?:{pattern})$"} if pattern else TEXT
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(route: web.RouteDef, declared: DeclaredRoute) -> Iterator[dict[str, Any]]:
    query = dict(declared.query)
    if has_dry_run(route.handler):
        query[PARAMETER] = FLAG
    for name, schema in query.items():
        is_required = name in declared.required
        yield {"name": name, "in": "query", "required": is_required, "schema": schema}


def _responses(route: web.RouteDef, path: str, declared: DeclaredRoute) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status in (declared.status, *declared.also):
        found[str(status)] = _response(status, _content(declared, status))
    if has_dry_run(route.handler) and "200" not in found:
        found["200"] = _response(200, {_JSON: {"schema": ref("DryRun")}})
    for status in sorted(_errors(route, path, declared)):
        found[str(status)] = {"$ref": f"#/components/responses/{status}"}
    return found


def _error(status: int) -> dict[str, Any]:
    return _response(status, {} if status == 307 else _ERROR)


def _response(status: int, content: Mapping[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {"description": _REASONS[status]}
    return {**described, "content": dict(content)} if content else described


def _content(declared: DeclaredRoute, status: int) -> Mapping[str, Any]:
    if status != declared.status or declared.answer is None:
        return {}
    return {declared.answer_type: {"schema": declared.answer}}


def _errors(route: web.RouteDef, path: str, declared: DeclaredRoute) -> set[int]:
    """The declared ones, and those that follow from the route."""
    # A request may be one too many, or the broker is stopping or without a session.
    found = {429, 503, *declared.errors}
    if access_of(path, route.method) not in _OPEN:
        found |= {401, 403}
    if declared.is_redirected:
        found.add(307)
    if declared.query or route.method != "GET":
        found.add(400)
    if declared.body is not None:
        found |= {408, 413}
    variables = {name for name, _ in _VARIABLE.findall(route.path)}
    if variables & _NAMED:
        found |= {404, 412}
    if path.startswith("/admin/v2/{domain}/"):
        # Another domain is none of a topic's: the path is one of the broker process.
        found.add(501)
    if "tenant" in variables:
        found.add(412)
    return found


# ``/openapi.json``: the description of what this server serves.


class OpenApiRoutes:
    """Serves the document; it is built when it is first asked for."""

    def __init__(self, routes: Sequence[web.RouteDef], version: str) -> None:
        self._routes = (*routes, *self.routes())
        self._version = version
        self._document: bytes | None = None

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [web.get("/openapi.json", self.document)]

    async def document(self, _: web.Request) -> web.Response:
        """This description of the API, in OpenAPI 3.1."""
        if self._document is None:
            self._document = encode(build(self._routes, self._version))
        return responses.encoded_json(self._document)
