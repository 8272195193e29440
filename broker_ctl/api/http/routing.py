"""Which route serves a request.

aiohttp's `UrlDispatcher` reads the patterns; the search is made here. Its own makes an exception
and a route for each path that it does not find, which hold each other: only the garbage collection
would take them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from aiohttp import web


class RoutedRequest(web.Request):
    """A request with its route.

    Attributes:
        match_info: set by the dispatcher before anything reads it.
    """

    ATTRS = web.Request.ATTRS | {"match_info"}
    # In the place of aiohttp's property, which reads what only its `Application` writes.
    match_info: web.UrlMappingMatchInfo = cast("web.UrlMappingMatchInfo", None)


@dataclass(frozen=True, slots=True)
class _Resource:
    """A pattern of paths, and the routes of its methods."""

    pattern: re.Pattern[str]
    routes: Mapping[str, web.AbstractRoute]


class RouteTable:
    """The routes of one server.

    Of several patterns that match a path, the one with the longest fixed beginning serves it; of
    two with the same, the one that was added first.
    """

    def __init__(self, routes: Iterable[web.AbstractRouteDef]) -> None:
        router = web.UrlDispatcher()
        router.add_routes(routes)
        self._by_beginning: dict[str, list[_Resource]] = {}
        for resource in router.resources():
            info = resource.get_info()
            pattern = info.get("pattern") or re.compile(re.escape(info["path"]))
            found = _Resource(pattern, {route.method: route for route in resource})
            self._by_beginning.setdefault(_beginning(resource.canonical), []).append(found)

    def find(self, method: str, path: str) -> web.UrlMappingMatchInfo | web.HTTPException:
        """The route of a path, or why none serves it: 404 or 405.

        ``path`` is decoded but for its slashes and per cents, as `yarl.URL.path_safe` is.
        """
        allowed: set[str] = set()
        beginning = path
        while beginning:
            for resource in self._by_beginning.get(beginning, ()):
                matched = resource.pattern.fullmatch(path)
                if matched is None:
                    continue
                route = resource.routes.get(method)
                if route is not None:
                    return web.UrlMappingMatchInfo(_values(matched), route)
                allowed.update(resource.routes)
            beginning = beginning.rpartition("/")[0]
        return web.HTTPMethodNotAllowed(method, allowed) if allowed else web.HTTPNotFound()


def _beginning(canonical: str) -> str:
    """The whole steps of a pattern before its first variable."""
    fixed, brace, _ = canonical.partition("{")
    return fixed.rpartition("/")[0] if brace else fixed


def _values(matched: re.Match[str]) -> dict[str, str]:
    """The variables of a path, wholly decoded."""
    values = matched.groupdict()
    if "%" not in matched.string:
        return values
    return {name: value.replace("%2F", "/").replace("%25", "%") for name, value in values.items()}
