"""Finds the route of a request, and which of the ports serves it."""

import hmac
import re
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import coroutine
from typing import Any, Final, TypeVar, cast

from aiohttp import web

from broker_ctl.core.model.names import Topic
from broker_ctl.security.authentication import Principal
from broker_ctl.security.authorization import Authorization, Client

# What the latest request of a connection has proven.
#
# Clients show the same token in each request of a connection. To judge it again takes several
# times as long as to see that it is the same.


@dataclass(frozen=True, slots=True)
class Sender:
    """Who has sent a request.

    Attributes:
        client: None: another broker.
        authorization: that the client is subject to.
    """

    principal: Principal
    client: Client | None = None
    authorization: Authorization | None = None


@dataclass(frozen=True, slots=True)
class KnownClient:
    """A client, and the headers that it was known by.

    Attributes:
        authorization: the header with its token; ASCII.
        original: the original principal that it named.
        era: of the authenticator: in a later one the token may prove nothing.
    """

    authorization: str = field(repr=False)
    original: str
    era: int
    sender: Sender

    def is_sender(self, authorization: str, original: str, era: int, now_s: float) -> bool:
        """Whether a request with such headers, at this Unix time, is of this client."""
        return (
            self.era == era
            and self.original == original
            and not self.sender.principal.is_expired(now_s)
            and authorization.isascii()
            # The connection may be a proxy's, which passes requests of several clients.
            and hmac.compare_digest(self.authorization, authorization)
        )


# Finds the route of a request.
#
# aiohttp's `UrlDispatcher` parses the patterns; the search is done here. Its own search makes an
# exception and a route for each unknown path; they refer to each other, so that only the garbage
# collector frees them.


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


# Requests whose steps begin in the callback that reads them, as asyncio's eager tasks do.
#
# Most lookups are answered from memory. For each of them aiohttp would wake the task of the
# connection, which would start another one for the request: together they take as long as the
# lookup. So the steps of such a request begin without a task. Most of them end there. A request
# that has to wait calls `in_task` first, and goes on from that point in the task that aiohttp has
# for it: no step is left out, and none is done twice.


H = TypeVar("H", bound=Callable[..., Any])

# The response to a request, if memory has it.
Recall = Callable[[web.Request], web.Response | None]

_MARK: Final = "recalled_by"


class RequestSteps:
    """The steps of one request, begun without a task.

    Attributes:
        response: None: they have to wait, and go on where a task awaits this object.
    """

    __slots__ = ("_steps", "response")

    def __init__(self, steps: Coroutine[Any, Any, web.StreamResponse]) -> None:
        """Begin.

        Raises:
            RuntimeError: a step has waited without a task.
        """
        self._steps = steps
        self.response: web.StreamResponse | None = None
        try:
            awaited = steps.send(None)
        except StopIteration as ended:
            self.response = ended.value
            return
        if awaited is not None:
            steps.close()
            raise RuntimeError("a step of a request has waited without a task")

    def __await__(self) -> Generator[Any, Any, web.StreamResponse]:
        """Go on in the task that awaits this."""
        return self._steps.__await__()

    def close(self) -> None:
        """Give up the steps that wait for a task."""
        self._steps.close()


@coroutine
def _hand_over() -> Generator[None, None, None]:
    yield


async def in_task(request: web.Request) -> None:
    """Go on in a task. Only a task may be cancelled, have a deadline, or wait."""
    assert isinstance(request, RoutedRequest)
    if request.is_eager:
        request.is_eager = False
        await _hand_over()


def recalled_by(name: str) -> Callable[[H], H]:
    """Mark a handler whose class has a method ``name`` that may answer from memory, a `Recall`.

    It is called first; the handler only where it returns None.
    """

    def mark(handler: H) -> H:
        setattr(handler, _MARK, name)
        return handler

    return mark


def recall_of(handler: Callable[..., Any]) -> Recall | None:
    """What may answer in place of a handler; None: nothing."""
    name: str | None = getattr(handler, _MARK, None)
    if name is None:
        return None
    recall: Recall = getattr(handler.__self__, name)  # type: ignore[attr-defined]
    return recall
