"""What tests ask of running daemons."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from broker_ctl.core.model.names import Topic
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess
from tests.support.clusters.tenants import make_tenant

NAMESPACE = "public/default"
_MOST_REDIRECTS = 10


async def status(http: HttpClient, daemon: DaemonProcess) -> dict[str, Any]:
    """The status of one daemon; empty while it does not answer."""
    try:
        reply = await http.request("GET", f"{daemon.url}/control/v1/status")
    except HttpError:
        return {}
    return dict(reply.json()) if reply.status == 200 else {}


async def overview(http: HttpClient, daemon: DaemonProcess) -> dict[str, Any]:
    """The leader's view of the cluster, through any broker; empty without a leader."""
    try:
        url = f"{daemon.url}/control/v1/cluster"
        reply = await http.request("GET", url, allow_redirects=True)
    except HttpError:
        return {}
    return dict(reply.json()) if reply.status == 200 else {}


async def make_namespace(http: HttpClient, daemon: DaemonProcess, bundles: int = 4) -> None:
    """Create public/default, and its tenant."""
    await make_tenant(http, daemon.url, "public")
    url = f"{daemon.url}/admin/v2/namespaces/{NAMESPACE}"
    reply = await http.request("PUT", url, json={"bundles": {"numBundles": bundles}})
    assert reply.status == 204, reply.body


async def look_up(http: HttpClient, daemon: DaemonProcess, topic: Topic) -> dict[str, Any]:
    """The answer after all redirects; empty where there is none yet."""
    url = f"{daemon.url}/lookup/v2/topic/{topic.domain}/{topic.namespace}/{topic.local}"
    try:
        for _ in range(_MOST_REDIRECTS):
            reply = await http.request("GET", url)
            if reply.status != 307:
                break
            # Each with the token of the client: a redirect that is followed has none.
            url = reply.headers["Location"]
    except HttpError:
        return {}
    return dict(reply.json()) if reply.status == 200 else {}


async def leader_of(
    http: HttpClient, daemons: Iterable[DaemonProcess]
) -> tuple[DaemonProcess, int] | None:
    """The one daemon that says that it leads, and its epoch."""
    for daemon in daemons:
        seen = await status(http, daemon)
        if seen.get("is_leader"):
            picture = await overview(http, daemon)
            if picture:
                return daemon, int(picture["epoch"])
    return None


async def counts(http: HttpClient, daemon: DaemonProcess, name: str) -> dict[str, int]:
    """The values of a metric by reason, without those that are 0."""
    reply = await http.request("GET", f"{daemon.url}/metrics")
    lines = reply.body.decode().splitlines()
    rows = (re.fullmatch(name + r'\{.*reason="([^"]+)".*\} (\S+)', line) for line in lines)
    found: Counter[str] = Counter()
    for row in filter(None, rows):
        found[row[1]] += int(float(row[2]))
    return dict(+found)
