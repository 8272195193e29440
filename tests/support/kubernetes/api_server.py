"""A small API server of Kubernetes: Leases and ConfigMaps, over real HTTP.

It keeps the documented rules of optimistic concurrency: every write gives an object a new resource
version; a replacement that names another one than the current is a conflict; a Lease cannot be
replaced without naming one; an object that exists cannot be created. Tokens and rights are checked.
"""

import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from aiohttp import web

GROUPS = {
    "leases": "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases",
    "configmaps": "/api/v1/namespaces/{namespace}/configmaps",
}


@dataclass
class ApiServer:
    """Its objects, by resource, namespace and name.

    Attributes:
        token: the only one that it takes.
        forbidden: rights that the account lacks, as ``verb resource``.
        is_mute: writes are carried out, and the connection is cut without an answer.
        is_down: nothing is answered.
    """

    token: str = "pod"  # of a test
    objects: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    forbidden: set[str] = field(default_factory=set)
    is_mute: bool = False
    is_down: bool = False
    writes: list[str] = field(default_factory=list)
    _versions: "count[int]" = field(default_factory=lambda: count(1))

    def app(self) -> web.Application:
        app = web.Application()
        for resource, path in GROUPS.items():
            app.add_routes(
                [
                    web.get(f"{path}/{{name}}", self._checked("get", resource, self._get)),
                    web.post(path, self._checked("create", resource, self._create)),
                    web.put(f"{path}/{{name}}", self._checked("update", resource, self._update)),
                ]
            )
        return app

    def lease(self, name: str = "state") -> dict[str, Any]:
        spec: dict[str, Any] = self.objects["leases", "here", name]["spec"]
        return spec

    def _checked(
        self, verb: str, resource: str, act: Callable[[str, web.Request], Awaitable[dict[str, Any]]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            if self.is_down:
                raise web.HTTPServiceUnavailable
            if request.headers.get("Authorization") != f"Bearer {self.token}":
                raise web.HTTPUnauthorized
            if f"{verb} {resource}" in self.forbidden:
                raise web.HTTPForbidden
            found = await act(resource, request)
            if verb != "get":
                self.writes.append(f"{verb} {resource}")
                if self.is_mute and request.transport is not None:
                    request.transport.close()
            return web.json_response(found, status=201 if verb == "create" else 200)

        return handle

    async def _get(self, resource: str, request: web.Request) -> dict[str, Any]:
        return self._find(resource, request)

    async def _create(self, resource: str, request: web.Request) -> dict[str, Any]:
        given = await request.json()
        key = resource, request.match_info["namespace"], given["metadata"]["name"]
        if key in self.objects:
            raise web.HTTPConflict(text='{"reason": "AlreadyExists"}')
        return self._store(key, given)

    async def _update(self, resource: str, request: web.Request) -> dict[str, Any]:
        known, given = self._find(resource, request), await request.json()
        version = given["metadata"].get("resourceVersion")
        if version is None and resource == "leases":
            raise web.HTTPUnprocessableEntity
        if version not in {None, known["metadata"]["resourceVersion"]}:
            raise web.HTTPConflict(text='{"reason": "Conflict"}')
        key = resource, request.match_info["namespace"], request.match_info["name"]
        return self._store(key, given)

    def _find(self, resource: str, request: web.Request) -> dict[str, Any]:
        info = request.match_info
        found = self.objects.get((resource, info["namespace"], info["name"]))
        if found is None:
            raise web.HTTPNotFound(text='{"reason": "NotFound"}')
        return copy.deepcopy(found)

    def _store(self, key: tuple[str, str, str], given: dict[str, Any]) -> dict[str, Any]:
        metadata = {**given["metadata"], "resourceVersion": str(next(self._versions))}
        self.objects[key] = {**given, "metadata": metadata}
        return copy.deepcopy(self.objects[key])
