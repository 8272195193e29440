"""The screens of the console: what each reads from the API, and the template that shows it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from aiohttp import web

from broker_ctl.console.pages.bundles import bundles_page, partitions_page, policies_page, topics_of
from broker_ctl.console.pages.history import TIMES, history_page, times_wanted
from broker_ctl.console.pages.now import now_page
from broker_ctl.console.pages.plan import plan_page, rollout_page, settings_page
from broker_ctl.console.web.reading import CLUSTER, ConsoleReading

_EXPLAIN: Final = "/control/v1/explain"
_DRAINS: Final = "/control/v1/drains"
_IMBALANCE: Final = "/control/v1/imbalance"
_PARTITIONS: Final = "/control/v1/partitions"
_PLANS: Final = "/control/v1/plans"
_PROPOSALS: Final = "/control/v1/proposals"
_ROLLOUT: Final = "/control/v1/rollout"
_STATUS: Final = "/control/v1/status"
_TOPICS: Final = "/admin/v2/broker-stats/topics"
_CONFIGURATION: Final = "/admin/v2/brokers/configuration"
# Points of the small picture of the first page.
_POINTS: Final = 120
_ENTRIES: Final = 300
_FILTERS: Final = ("kind", "result", "broker", "bundle")
_MOST_TEXT: Final = 300


@dataclass(frozen=True, slots=True)
class Screen:
    """One screen for one client.

    Attributes:
        name: of its template.
        title: of the page.
        cluster: the leader's view; None: there is none.
        values: of the template.
        missing: why there is nothing to show; empty: there is something.
        part: the template in it that updates replace; empty: all of it.
    """

    name: str
    title: str
    cluster: Mapping[str, Any] | None
    values: Mapping[str, Any]
    missing: str = ""
    part: str = ""


Show = Callable[[ConsoleReading, web.Request], Awaitable[Screen]]


async def now(reading: ConsoleReading, request: web.Request) -> Screen:
    """How the cluster is."""
    known, band = await reading.known(request), await reading.band(request)
    points = await reading.value(request, f"{_IMBALANCE}?points={_POINTS}", [])
    page = now_page(known, band, points)
    values = {"now": page, "status": known.status, "cluster": known.cluster, "band": band}
    return Screen("now", "Now", known.cluster, values)


async def bundles(reading: ConsoleReading, request: web.Request) -> Screen:
    """The rings of the namespaces, and one bundle in detail."""
    cluster = await reading.value(request, CLUSTER, None)
    chosen = _text(request, "bundle")
    explained, topics = None, None
    if chosen:
        explained = await reading.value(request, f"{_EXPLAIN}?subject={quote(chosen)}", None)
        owner = None if explained is None else explained["owner"]
        if owner is not None:
            reply = await reading.at_broker(request, owner, _TOPICS)
            topics = topics_of(chosen, reply.value if reply.is_done else None)
    page = bundles_page(cluster, _text(request, "namespace"), chosen)
    values = {"bundles": page, "explained": explained, "topics": topics, "cluster": cluster}
    return Screen("bundles", chosen or "Bundles", cluster, values)


async def broker(reading: ConsoleReading, request: web.Request) -> Screen:
    """One broker: its usage, its bundles, its session, its last decisions."""
    cluster = await reading.value(request, CLUSTER, None)
    name = request.match_info["broker"][:_MOST_TEXT]
    reply = await reading.get(request, f"{_EXPLAIN}?subject={quote(name)}")
    if not reply.is_done:
        return Screen("broker", name, cluster, {}, reply.reason)
    drains = await reading.value(request, _DRAINS, [])
    drain = next((row for row in drains if row["broker"] == name), None)
    own = await reading.at_broker(request, name, _STATUS)
    values = {
        "broker": reply.value,
        "drain": drain,
        "name": name,
        "own": own.value if own.is_done else None,
        "unanswered": "" if own.is_done else own.reason,
    }
    return Screen("broker", name, cluster, values)


async def plan(reading: ConsoleReading, request: web.Request) -> Screen:
    """What the leader would do next, and the plan in execution."""
    cluster = await reading.value(request, CLUSTER, None)
    reply = await reading.get(request, "/control/v1/plan?verbose=true")
    if not reply.is_done:
        return Screen("plan", "Plan", cluster, {}, reply.reason)
    page = plan_page(reply.value, [] if cluster is None else cluster["brokers"])
    values = {
        "plan": page,
        "executed": await reading.value(request, _PLANS, []),
        "proposals": await reading.value(request, _PROPOSALS, []),
    }
    return Screen("plan", "Plan", cluster, values, part="approved")


async def approved(reading: ConsoleReading, request: web.Request) -> Screen:
    """The plan in execution alone: the next one is computed for a reader, not every second."""
    executed = await reading.value(request, _PLANS, [])
    return Screen("approved", "Plan", None, {"executed": executed})


async def history(reading: ConsoleReading, request: web.Request) -> Screen:
    """Imbalance and decisions of the last hours."""
    cluster = await reading.value(request, CLUSTER, None)
    wanted = {name: value for name in _FILTERS if (value := _text(request, name))}
    times, moments = times_wanted({name: _text(request, name) for name in TIMES}, reading.now_ms())
    query = urlencode({**wanted, **moments, "limit": _ENTRIES})
    reply = await reading.get(request, f"/control/v1/history?{query}")
    if not reply.is_done:
        return Screen("history", "History", cluster, {}, reply.reason)
    points = await reading.value(request, _IMBALANCE, [])
    page = history_page(
        reply.value,
        {**wanted, **times},
        [] if cluster is None else cluster["brokers"],
        points,
        band=await reading.band(request),
        now_ms=reading.now_ms(),
    )
    return Screen("history", "History", cluster, {"history": page})


async def drains(reading: ConsoleReading, request: web.Request) -> Screen:
    """Brokers that are emptied, and the restart of all of them."""
    cluster = await reading.value(request, CLUSTER, None)
    rows = await reading.value(request, _DRAINS, [])
    rollout = await reading.value(request, _ROLLOUT, None)
    page = None if rollout is None else rollout_page(rollout)
    forecast = None
    if page is None or page.is_over:
        forecast = await reading.value(request, f"{_ROLLOUT}/plan", None)
    values = {"drains": rows, "rollout": page, "forecast": forecast, "cluster": cluster}
    return Screen("drains", "Drains and rollout", cluster, values, part="rollout")


async def rollout(reading: ConsoleReading, request: web.Request) -> Screen:
    """The same without the forecast, which is computed for a reader, not every second."""
    rows = await reading.value(request, _DRAINS, [])
    found = await reading.value(request, _ROLLOUT, None)
    page = None if found is None else rollout_page(found)
    return Screen("rollout", "Drains and rollout", None, {"drains": rows, "rollout": page})


async def partitions(reading: ConsoleReading, request: web.Request) -> Screen:
    """The replicated partitions."""
    cluster = await reading.value(request, CLUSTER, None)
    reply = await reading.get(request, f"{_PARTITIONS}/controller")
    if not reply.is_done:
        return Screen("partitions", "Partitions", cluster, {}, reply.reason)
    topics = await reading.value(request, f"{_PARTITIONS}/topics", [])
    moving = await reading.value(request, f"{_PARTITIONS}/reassignments", [])
    changes = await reading.value(request, f"{_PARTITIONS}/transitions?limit=20", [])
    topic = None
    if chosen := _text(request, "topic"):
        target = f"{_PARTITIONS}/topics/{quote(chosen, safe='')}"
        topic = await reading.value(request, target, None)
    page = partitions_page(reply.value, topics)
    values = {"partitions": page, "topic": topic, "moving": moving, "changes": changes}
    return Screen("partitions", "Partitions", cluster, values)


async def policies(reading: ConsoleReading, request: web.Request) -> Screen:
    """Isolation policies and failure domains, and the brokers that they cover now."""
    cluster = await reading.value(request, CLUSTER, None)
    root = f"/admin/v2/clusters/{quote(reading.rules.cluster, safe='')}"
    reply = await reading.get(request, f"{root}/namespaceIsolationPolicies")
    if not reply.is_done:
        return Screen("policies", "Policies", cluster, {}, reply.reason)
    matches = await reading.value(request, f"{root}/namespaceIsolationPolicies/brokers", [])
    domains = await reading.value(request, f"{root}/failureDomains", {})
    page = policies_page(reply.value, matches, domains)
    return Screen("policies", "Policies", cluster, {"policies": page})


async def settings(reading: ConsoleReading, request: web.Request) -> Screen:
    """The settings in force at the daemon that was asked."""
    cluster = await reading.value(request, CLUSTER, None)
    reply = await reading.get(request, f"{_CONFIGURATION}/runtime")
    if not reply.is_done:
        return Screen("settings", "Settings", cluster, {}, reply.reason)
    overrides = await reading.value(request, f"{_CONFIGURATION}/values", {})
    dynamic = await reading.value(request, _CONFIGURATION, [])
    page = settings_page(reply.value, overrides, dynamic)
    return Screen("settings", "Settings", cluster, {"settings": page})


def _text(request: web.Request, name: str) -> str:
    return request.query.get(name, "")[:_MOST_TEXT]
