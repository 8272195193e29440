"""Parameters of requests: names in the path, flags in the query, JSON in the body, dry runs."""

import math
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, Final, TypeVar
from urllib.parse import unquote_plus

from aiohttp import web

from broker_ctl import codec
from broker_ctl.api.http import responses
from broker_ctl.api.http.bodies import read_bounded
from broker_ctl.api.http.responses import ApiError, route_of
from broker_ctl.api.http.routing import RoutedRequest
from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.core.model.field_kinds import misfit
from broker_ctl.core.model.names import Bundle, BundleRange, Namespace, Topic
from broker_ctl.core.model.safe_text import has_control_characters
from broker_ctl.errors import BundleGone, CorruptRecord, InvalidName

# Parameters of requests: names in the path, flags in the query, JSON in the body.


_MOST_DIGITS: Final = 32
_JSON: Final = "application/json"
_FLAGS: Final = {"true": True, "false": False, "": False}


def namespace_in(request: web.Request) -> Namespace:
    """The namespace in the path.

    Raises:
        InvalidName: not a valid name.
    """
    return Namespace.parse(f"{request.match_info['tenant']}/{request.match_info['namespace']}")


def topic_in(request: web.Request) -> Topic:
    """The topic in the path; its route has the segments of a topic's name, domain first.

    Java's clients write a blank as ``+`` and a plus as ``%2B``, which only the encoded path
    distinguishes.

    Raises:
        InvalidName: not a valid name.
    """
    # Authorization and the handler both ask for it.
    assert isinstance(request, RoutedRequest)
    if request.topic is None:
        # The index comes from the route: other segments may be encoded otherwise than they are
        # matched.
        encoded = request.rel_url.raw_path.split("/")[_topic_index(route_of(request))]
        local = unquote_plus(encoded, errors="surrogateescape")
        request.topic = Topic.of(request.match_info["domain"], namespace_in(request), local)
    return request.topic


# There are a few dozen routes.
@cache
def _topic_index(route: str) -> int:
    """Which segment of a route is the topic."""
    return route.split("/").index("{topic}")


def new_topic_in(request: web.Request) -> Topic:
    """The topic in the path that a request creates.

    Existing topics of a Pulsar cluster may have control characters in their names.

    Raises:
        InvalidName: not a valid name, or one with control characters.
    """
    topic = topic_in(request)
    if has_control_characters(topic.local):
        raise InvalidName(f"{str(topic)!r}: the local name has control characters")
    return topic


async def bundle_in(request: web.Request, namespaces: Namespaces) -> Bundle:
    """The bundle in the path, which is in its namespace's current ring.

    Raises:
        InvalidName, NamespaceMissing, BundleGone: there is no such bundle.
    """
    namespace = namespace_in(request)
    bundle = Bundle(namespace, BundleRange.parse(request.match_info["bundle"]))
    if bundle not in await namespaces.ring(namespace):
        raise BundleGone(f"{bundle.range} is not a bundle of {namespace}")
    return bundle


def flag(request: web.Request, name: str) -> bool:
    """A query parameter that is true or false; false where it is absent.

    Raises:
        ApiError: 400, something else.
    """
    try:
        return _FLAGS[request.query.get(name, "").lower()]
    except KeyError:
        raise ApiError(400, f"{name} is true or false") from None


def whole_number_in(request: web.Request, name: str, default: int, most: int) -> int:
    """A query parameter from 1 to ``most``.

    Raises:
        ApiError: 400, something else.
    """
    text = request.query.get(name) or str(default)
    # At most as many digits as the bound: int() of a long text is slow.
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    if not is_number or not 1 <= int(text) <= most:
        raise ApiError(400, f"{name} is a number from 1 to {most}")
    return int(text)


def positive_in(request: web.Request, name: str, default: float) -> float:
    """A query parameter above 0.

    Raises:
        ApiError: 400, something else.
    """
    text = request.query.get(name)
    if not text:
        return default
    try:
        number = float(text[:_MOST_DIGITS])
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ApiError(400, f"{name} is a number above 0")
    return number


async def json_in(request: web.Request, *more_types: str) -> Any:
    """The JSON body; None where it is empty. ``more_types``: types that Pulsar has for some bodies.

    The content type JSON is required: a web page in a person's browser cannot send it to another
    origin without a preflight request, which this server does not grant.

    Raises:
        ApiError: 400, not JSON, or incomplete; 408, not sent in time; 413, too large.
    """
    body = await read_bounded(request)
    if not body:
        return None
    types = (_JSON, *more_types)
    if request.content_type not in types:
        raise ApiError(400, f"Content-Type must be {' or '.join(types)}")
    try:
        return codec.decode(body)
    except CorruptRecord as error:
        raise ApiError(400, f"the body is {error}") from error


async def object_in(request: web.Request) -> dict[str, Any]:
    """The body, a JSON object; empty where there is no body.

    Raises:
        ApiError: 400, not an object.
    """
    body = await json_in(request)
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise ApiError(400, "the body must be a JSON object")
    return body


async def fields_in(request: web.Request, kinds: Mapping[str, str]) -> dict[str, Any]:
    """The body, a JSON object with fields of the kinds that Pulsar reads; nulls are omitted.

    Raises:
        ApiError: 400, not an object, or a field of another kind.
    """
    body = await object_in(request)
    wrong = misfit(body, kinds)
    if wrong is not None:
        raise ApiError(400, wrong)
    return {name: value for name, value in body.items() if value is not None}


async def texts_in(request: web.Request, items: str) -> list[str]:
    """The body, a JSON list of texts; empty where there is no body.

    Raises:
        ApiError: 400, something else.
    """
    body = await json_in(request)
    if body is None:
        return []
    if not isinstance(body, list) or not all(isinstance(item, str) for item in body):
        raise ApiError(400, f"the body must be a list of {items}")
    return body


def whole_number(value: Any) -> int | None:
    """A whole number of a body; as in Java also as a text or as 3.0. None: not a whole number."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        return int(value) if len(value) <= _MOST_DIGITS else None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# ``dry_run=true``: a request is checked as usual, and ends before its first write.
#
# The same handler serves both, so a dry run fails with the error that the action would fail with.
# A handler without support for dry runs rejects one, because it would carry the action out.


PARAMETER: Final = "dry_run"
_READS: Final = frozenset({"GET", "HEAD"})
_MARK: Final = "supports_dry_run"

H = TypeVar("H", bound=Callable[..., Awaitable[web.StreamResponse]])


def supports_dry_run(handler: H) -> H:
    """Mark a handler that checks `is_dry_run` before its first write."""
    setattr(handler, _MARK, True)
    return handler


def is_dry_run(request: web.Request) -> bool:
    """Whether the request must write nothing.

    Raises:
        ApiError: 400, neither true nor false.
    """
    return flag(request, PARAMETER)


def check(request: web.Request) -> None:
    """Reject a dry run of a handler that does not support it.

    Raises:
        ApiError: 400, the handler would act.
    """
    if request.method in _READS or not is_dry_run(request):
        return
    if not _is_marked(request):
        raise ApiError(400, "this request has no dry run: nothing was done", kind="NoDryRun")


def has_dry_run(handler: Callable[..., Any]) -> bool:
    """Whether a handler supports dry runs."""
    return getattr(handler, _MARK, False)


def _is_marked(request: web.Request) -> bool:
    return has_dry_run(request.match_info.handler)


def report_dry_run(**found: Any) -> web.Response:
    """The response of a dry run without objections; ``found`` is what the action would affect."""
    return responses.json({"dry_run": True, **found})
