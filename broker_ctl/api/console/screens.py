"""The screens of the console: what each reads from the API, and the template that shows it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote, urlencode

from aiohttp import web

from broker_ctl.api.console.reading import Reading
from broker_ctl.console.pages.bundles import bundles_page
from broker_ctl.console.pages.history import history_page
from broker_ctl.console.pages.now import now_page
from broker_ctl.console.pages.partitions import partitions_page
from broker_ctl.console.pages.plan import plan_page
from broker_ctl.console.pages.settings import settings_page

_CLUSTER: Final = "/control/v1/cluster"
_EXPLAIN: Final = "/control/v1/explain"
_PARTITIONS: Final = "/control/v1/partitions"
_ENTRIES: Final = 300
_FILTERS: Final = ("kind", "result", "broker", "bundle")
_MOST_TEXT: Final = 300


@dataclass(frozen=True, slots=True)
class Screen:
    """One screen for one client.

    Attributes:
        name: of its templates, the whole page and ``..._body``, which updates replace.
        cluster: the leader's view; None: there is none.
        values: of the templates.
        missing: why there is nothing to show; empty: there is something.
    """

    name: str
    cluster: Mapping[str, Any] | None
    values: Mapping[str, Any]
    missing: str = ""


Show = Callable[[Reading, web.Request], Awaitable[Screen]]


async def now(reading: Reading, request: web.Request) -> Screen:
    """How the cluster is."""
    known, band = await reading.known(request), await reading.band(request)
    values = {"now": now_page(known, band), "status": known.status, "cluster": known.cluster}
    return Screen("now", known.cluster, {**values, "band": band})


async def bundles(reading: Reading, request: web.Request) -> Screen:
    """The rings of the namespaces, and one bundle in detail."""
    cluster = await reading.value(request, _CLUSTER, None)
    chosen = request.query.get("bundle", "")[:_MOST_TEXT]
    explained = None
    if chosen:
        explained = await reading.value(request, f"{_EXPLAIN}?subject={quote(chosen)}", None)
    page = bundles_page(cluster, request.query.get("namespace", "")[:_MOST_TEXT], chosen)
    return Screen("bundles", cluster, {"bundles": page, "explained": explained, "cluster": cluster})


async def broker(reading: Reading, request: web.Request) -> Screen:
    """One broker: its usage, its bundles, its last decisions."""
    cluster = await reading.value(request, _CLUSTER, None)
    name = request.match_info["broker"]
    reply = await reading.get(request, f"{_EXPLAIN}?subject={quote(name)}")
    drains = await reading.value(request, "/control/v1/drains", [])
    drain = next((row for row in drains if row["broker"] == name), None)
    if not reply.is_done:
        return Screen("broker", cluster, {}, reply.reason)
    return Screen("broker", cluster, {"broker": reply.value, "drain": drain, "name": name})


async def plan(reading: Reading, request: web.Request) -> Screen:
    """What the leader would do next, and the plan in execution."""
    cluster = await reading.value(request, _CLUSTER, None)
    reply = await reading.get(request, "/control/v1/plan?verbose=true")
    if not reply.is_done:
        return Screen("plan", cluster, {}, reply.reason)
    executed = await reading.value(request, "/control/v1/plans", [])
    page = plan_page(reply.value, [] if cluster is None else cluster["brokers"])
    return Screen("plan", cluster, {"plan": page, "executed": executed})


async def history(reading: Reading, request: web.Request) -> Screen:
    """The decisions of the last hours."""
    cluster = await reading.value(request, _CLUSTER, None)
    wanted = {
        name: value[:_MOST_TEXT] for name in _FILTERS if (value := request.query.get(name, ""))
    }
    query = urlencode({**wanted, "limit": _ENTRIES})
    reply = await reading.get(request, f"/control/v1/history?{query}")
    if not reply.is_done:
        return Screen("history", cluster, {}, reply.reason)
    page = history_page(reply.value, wanted, [] if cluster is None else cluster["brokers"])
    return Screen("history", cluster, {"history": page})


async def partitions(reading: Reading, request: web.Request) -> Screen:
    """The replicated partitions."""
    cluster = await reading.value(request, _CLUSTER, None)
    reply = await reading.get(request, f"{_PARTITIONS}/controller")
    if not reply.is_done:
        return Screen("partitions", cluster, {}, reply.reason)
    topics = await reading.value(request, f"{_PARTITIONS}/topics", [])
    moving = await reading.value(request, f"{_PARTITIONS}/reassignments", [])
    changes = await reading.value(request, f"{_PARTITIONS}/transitions?limit=20", [])
    chosen = request.query.get("topic", "")[:_MOST_TEXT]
    topic = None
    if chosen:
        target = f"{_PARTITIONS}/topics/{quote(chosen, safe='')}"
        topic = await reading.value(request, target, None)
    page = partitions_page(reply.value, topics)
    values = {"partitions": page, "topic": topic, "moving": moving, "changes": changes}
    return Screen("partitions", cluster, values)


async def settings(reading: Reading, request: web.Request) -> Screen:
    """The settings in force at the daemon that was asked."""
    cluster = await reading.value(request, _CLUSTER, None)
    root = "/admin/v2/brokers/configuration"
    reply = await reading.get(request, f"{root}/runtime")
    if not reply.is_done:
        return Screen("settings", cluster, {}, reply.reason)
    overrides = await reading.value(request, f"{root}/values", {})
    dynamic = await reading.value(request, root, [])
    page = settings_page(reply.value, overrides, dynamic)
    return Screen("settings", cluster, {"settings": page})


# Path below /ui/, and what it shows.
SCREENS: Final[Mapping[str, Show]] = MappingProxyType(
    {
        "": now,
        "bundles": bundles,
        "brokers/{broker}": broker,
        "plan": plan,
        "history": history,
        "partitions": partitions,
        "settings": settings,
    }
)
