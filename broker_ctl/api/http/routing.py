"""Finds the route of a request.

aiohttp's `UrlDispatcher` parses the patterns; the search is done here. Its own search makes an
exception and a route for each unknown path; they refer to each other, so that only the garbage
collector frees them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from aiohttp import web

from broker_ctl.api.http.access.known_clients import Sender
from broker_ctl.core.model.names import Topic


class RoutedRequest(web.Request):
    """A request with its route.

    Attributes:
        match_info: set by the dispatcher before anything reads it.
        is_admitted: whether a handler was called, after all checks of who may ask.
        is_eager: whether its steps run without a task; see `eager`.
        is_inner: whether a handler makes it for its client, which waits for the outer response.
        is_at_admin_port: whether it came to a port for administration.
        topic: the topic in the path, once it was read.
        sender: who has sent it; None: nobody who has proven a role.
    """

    ATTRS = web.Request.ATTRS | {
        *(
            "match_info",
            "is_admitted",
            "is_eager",
            "is_inner",
            "is_at_admin_port",
            "topic",
            "sender",
        ),
    }
    is_admitted = False
    topic: Topic | None = None
    sender: Sender | None = None
    is_eager = False
    is_inner = False
    is_at_admin_port = False
    # Replaces aiohttp's property, which reads what only its `Application` writes.
    match_info: web.UrlMappingMatchInfo = cast("web.UrlMappingMatchInfo", None)


@dataclass(frozen=True, slots=True)
class _Resource:
    """A path pattern, and its routes by method."""

    pattern: re.Pattern[str]
    routes: Mapping[str, web.AbstractRoute]


class RouteTable:
    """The routes of one server.

    Of several patterns that match a path, the one with the longest fixed prefix serves it; of two
    with equal prefixes, the one added first.
    """

    def __init__(self, routes: Iterable[web.AbstractRouteDef]) -> None:
        router = web.UrlDispatcher()
        router.add_routes(routes)
        self._by_prefix: dict[str, list[_Resource]] = {}
        for resource in router.resources():
            info = resource.get_info()
            pattern = info.get("pattern") or re.compile(re.escape(info["path"]))
            found = _Resource(pattern, {route.method: route for route in resource})
            self._by_prefix.setdefault(_fixed_prefix(resource.canonical), []).append(found)

    def __iter__(self) -> Iterator[web.AbstractRoute]:
        for resources in self._by_prefix.values():
            for resource in resources:
                yield from resource.routes.values()

    def find(self, method: str, path: str) -> web.UrlMappingMatchInfo | web.HTTPException:
        """The route of a path, or the error 404 or 405.

        ``path`` is decoded except slashes and percent signs, as in `yarl.URL.path_safe`.
        """
        allowed: set[str] = set()
        prefix = path
        while prefix:
            for resource in self._by_prefix.get(prefix, ()):
                matched = resource.pattern.fullmatch(path)
                if matched is None:
                    continue
                route = resource.routes.get(method)
                if route is not None:
                    return web.UrlMappingMatchInfo(_values(matched), route)
                allowed.update(resource.routes)
            prefix = prefix.rpartition("/")[0]
        return web.HTTPMethodNotAllowed(method, allowed) if allowed else web.HTTPNotFound()


def _fixed_prefix(canonical: str) -> str:
    """The whole segments of a pattern before its first variable."""
    fixed, brace, _ = canonical.partition("{")
    return fixed.rpartition("/")[0] if brace else fixed


def _values(matched: re.Match[str]) -> dict[str, str]:
    """The variables of a path, fully decoded."""
    values = matched.groupdict()
    if "%" not in matched.string:
        return values
    return {name: value.replace("%2F", "/").replace("%25", "%") for name, value in values.items()}
