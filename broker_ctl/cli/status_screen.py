"""Screens that follow a cluster: of ``broker-ctl status --watch``, and of the demo cluster."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from broker_ctl.cli.runtime.output import (
    duration_text,
    reason_first,
    sentence_of,
    shared_namespace,
    time_text,
)
from broker_ctl.core.cluster.imbalance import imbalance_text
from broker_ctl.errors import EmbeddedError, HttpError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.load_client import LoadClientStatistics

# The replicated topic of a demo cluster, and the overview of its controller.


TOPIC: Final = "quickstart"
_ROOT: Final = "/control/v1/partitions"
# The usual replication factor with Kafka.
_REPLICAS: Final = 3
_LIMIT_S: Final = 30.0
_POLL_S: Final = 0.2


def settings_of(number: int) -> dict[str, str]:
    """Settings of a broker that can hold replicas."""
    return {"brokerId": str(number)}


async def create_topic(http: HttpClient, daemon_url: str, partitions: int, brokers: int) -> None:
    """Create the topic once the controller knows all ``brokers``.

    Raises:
        EmbeddedError: the controller refused, or did not know all brokers in time.
    """
    body = {"partitions": partitions, "replication_factor": min(_REPLICAS, brokers)}
    why = "not asked yet"
    try:
        async with asyncio.timeout(_LIMIT_S):
            while len((await overview(http, daemon_url)).get("brokers", ())) < brokers:
                why = "the controller does not know all brokers"
                await asyncio.sleep(_POLL_S)
            why = "no answer"
            url = f"{daemon_url}{_ROOT}/topics/{TOPIC}"
            reply = await http.request("PUT", url, json=body, allow_redirects=True)
    except (TimeoutError, HttpError) as error:
        raise EmbeddedError(f"topic {TOPIC} was not created: {str(error) or why}") from error
    if reply.status != 200:
        raise EmbeddedError(f"{url}: {reply.status} {reply.body.decode(errors='replace')}")


async def overview(http: HttpClient, daemon_url: str) -> dict[str, Any]:
    """The controller's overview; empty without a controller or an answer."""
    try:
        reply = await http.request("GET", f"{daemon_url}{_ROOT}/controller", allow_redirects=True)
    except HttpError:
        return {}
    return dict(reply.json()) if reply.status == 200 else {}


def sentence(overview: Mapping[str, Any]) -> str:
    """The controller's overview in one line."""
    leaders = ", ".join(f"{row['broker']} leads {row['leaders']}" for row in overview["brokers"])
    return (
        f"partitions {overview['partitions']}, offline {overview['offline']}, "
        f"under-replicated {overview['under_replicated']}; broker {overview['broker']} controls, "
        f"{leaders}"
    )


# The live table of a demo cluster, cut to the height of the terminal.


# In terminals lower than _HIGH lines, and in others.
_DECISIONS_SHOWN: Final = (4, 8)
_HIGH: Final = 36
# A title, the names of the columns, a line below them.
_HEAD: Final = 3
_BAR: Final = 24
_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class DemoSnapshot:
    """What the table shows.

    Attributes:
        overview: the leader's; empty before its first one.
        urls: web addresses of the daemons.
        ended: a sentence for each daemon that has ended.
        replicated: the controller's overview; empty without one.
    """

    overview: dict[str, Any]
    client: LoadClientStatistics
    urls: Sequence[str]
    ended: Sequence[str] = ()
    replicated: dict[str, Any] = field(default_factory=dict)


class DemoTable:
    """Redraws itself in place; without a terminal it shows nothing."""

    def __init__(self, *, is_live: bool) -> None:
        self._live = Live(console=Console(), auto_refresh=False) if is_live else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, snapshot: DemoSnapshot) -> None:
        """Redraw the table."""
        if self._live is not None:
            self._live.update(render_demo(snapshot, self._live.console.height), refresh=True)


def render_demo(snapshot: DemoSnapshot, height: int) -> RenderableType:
    """At most ``height`` lines: brokers, decisions, addresses, then bundles."""
    return render_cluster(snapshot.overview, _foot(snapshot), height)


def render_cluster(
    overview: dict[str, Any], foot: Sequence[RenderableType], height: int
) -> RenderableType:
    """The leader's overview above ``foot``; if lines are short, the brokers with the most load."""
    if not overview:
        return Text("waiting for the leader's first overview")
    namespace = shared_namespace(bundle["bundle"] for bundle in overview["bundles"])
    decisions = _decision_lines(overview["decisions"], namespace)[
        : _DECISIONS_SHOWN[height >= _HIGH]
    ]
    most = max(1, height - 1 - 2 * _HEAD - len(decisions) - len(foot))
    if len(overview["brokers"]) > most:
        fullest = sorted(overview["brokers"], key=lambda broker: -float(broker["usage_ratio"]))
        overview = {**overview, "brokers": fullest[:most]}
    taken = _HEAD + len(overview["brokers"]) + 1 + len(decisions) + len(foot)
    # One line stays free: a terminal scrolls when its last one is written.
    room = height - 1 - taken - _HEAD
    parts: list[RenderableType] = [_brokers(overview)]
    if room > 0:
        parts.append(_bundles(overview, namespace, room))
    return Group(*parts, _decisions(decisions), *foot)


def _table(title: str, *, is_headed: bool = True) -> Table:
    return Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        show_header=is_headed,
    )


def _brokers(overview: dict[str, Any]) -> Table:
    leader, imbalance = overview.get("leader"), imbalance_text(overview["usage_imbalance"])
    table = _table(f"epoch {overview['epoch']}, cycle {overview['cycle']}, imbalance {imbalance}")
    for name in ("broker", "", "usage", "", "msg/s", "MiB/s", "bundles"):
        table.add_column(
            name,
            justify="right" if name in {"msg/s", "MiB/s", "bundles"} else "left",
            no_wrap=True,
        )
    for broker in overview["brokers"]:
        usage = float(broker["usage_ratio"])
        table.add_row(
            broker["broker"],
            "leader" if broker["broker"] == leader else "draining" * bool(broker["is_draining"]),
            "█" * round(min(usage, 1.0) * _BAR),
            f"{usage:.0%}",
            f"{broker['msg_per_s']:,.0f}",
            f"{broker['throughput_bytes_per_s'] / _MIB:.1f}",
            str(broker["bundles"]),
        )
    return table


def _bundles(overview: dict[str, Any], namespace: str, room: int) -> Table:
    bundles = list(overview["bundles"])
    title = f"{len(bundles)} bundles"
    if len(bundles) > room:
        title += f", the {room} with the most traffic"
        bundles = sorted(bundles, key=lambda bundle: -bundle["throughput_bytes_per_s"])[:room]
    table = _table(title)
    table.add_column(f"bundle of {namespace}" if namespace else "bundle", no_wrap=True)
    table.add_column("owner", no_wrap=True)
    for name in ("msg/s", "MiB/s", "topics"):
        table.add_column(name, justify="right", no_wrap=True)
    for bundle in bundles:
        table.add_row(
            bundle["bundle"].removeprefix(f"{namespace}/"),
            bundle["owner"] or "-",
            f"{bundle['msg_per_s']:,.0f}",
            f"{bundle['throughput_bytes_per_s'] / _MIB:.1f}",
            str(bundle["topics"]),
        )
    return table


def _decision_lines(
    decisions: Sequence[Mapping[str, Any]], namespace: str
) -> list[tuple[str, str]]:
    """Result and text: what was done, newest first; then each reason not to act, with its count.

    A cycle has a skip for each hot topic: they would hide what was done.
    """
    skips: dict[str, list[Mapping[str, Any]]] = {}
    lines: list[tuple[str, str]] = []
    for row in decisions:
        result = row.get("result", "")
        if result == "skipped":
            skips.setdefault(row.get("reason", row["sentence"]), []).append(row)
        else:
            lines.append((result, reason_first(row, namespace)))
    same = [("skipped", reason_first(of[0], namespace, count=len(of))) for of in skips.values()]
    # At least one line for those, however much was done.
    return [*lines[: _DECISIONS_SHOWN[0] - 1], *same, *lines[_DECISIONS_SHOWN[0] - 1 :]]


def _decisions(lines: Sequence[tuple[str, str]]) -> Table:
    table = _table("last decisions", is_headed=False)
    table.add_column(no_wrap=True, min_width=max((len(result) for result, _ in lines), default=0))
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for result, text in lines:
        table.add_row(result, text)
    return table


def _foot(snapshot: DemoSnapshot) -> list[Text]:
    client, urls = snapshot.client, snapshot.urls
    lines = [
        f"lookups {client.lookups}, failed {client.failures}   Ctrl-C stops everything",
        f"try: broker-ctl status --cluster --url {urls[0]}",
        f"console: {urls[0]}/ui/   metrics: {urls[0]}/metrics",
    ]
    if snapshot.replicated:
        lines.insert(0, sentence(snapshot.replicated))
    foot = [Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in lines]
    ended = (Text(line, style="red", no_wrap=True, overflow="ellipsis") for line in snapshot.ended)
    return [*ended, *foot]


# The screen of ``broker-ctl status --watch``, cut to the height of the terminal.


_MOST_DECISIONS: Final = 8


def render(state: Mapping[str, Any], height: int) -> RenderableType:
    """The state of a broker or of the cluster, in fewer lines than the terminal has."""
    if "journal" in state:
        return _broker(state, height)
    return render_cluster(dict(state), [_line(_cluster_foot(state))], height)


def cluster_verdict(state: Mapping[str, Any]) -> str:
    """What an operator wants to know first, in a line."""
    imbalance, brokers = imbalance_text(state["usage_imbalance"]), len(state["brokers"])
    return (
        f"{brokers} broker{'s' * (brokers != 1)}, bundles: {state['bundle_count']}, "
        f"imbalance {imbalance}   {_cluster_foot(state)}"
    )


def _cluster_foot(state: Mapping[str, Any]) -> str:
    states = [word for word in ("paused", "dry_run") if state.get(word)]
    why = state.get("pause_reason") or "the leader acts only on request"
    held = f"{' and '.join(states).replace('_', ' ')}: {why}   "
    return (
        f"{held if states else ''}{_offline(state)}{_over_limits(state)}{_surging(state)}"
        f"{_hot(state)}"
        f"{state['splits']} splits, {state['unloads']} unloads, "
        f"{len(state['moves'])} moves in flight; as of {time_text(state['taken_at_ms'])}"
    )


def _offline(state: Mapping[str, Any]) -> str:
    """Bundles of lost brokers that have not been placed yet."""
    if not state.get("offline_bundles"):
        return ""
    eta = duration_text(state["offline_eta_s"])
    return f"{state['offline_bundles']} bundles of lost brokers are not served (ETA {eta})   "


def _surging(state: Mapping[str, Any]) -> str:
    """Bundles and tenants whose traffic has just grown many times."""
    # A leader of the previous release does not list them.
    subjects = [row["subject"] for row in state.get("surges", ())]
    more = f" and {len(subjects) - 1} more" if len(subjects) > 1 else ""
    return f"surge of {subjects[0]}{more}   " if subjects else ""


def _hot(state: Mapping[str, Any]) -> str:
    """Bundles that one topic makes too large."""
    bundles = [row["bundle"] for row in state.get("hot_topics", ())]
    more = f" and {len(bundles) - 1} more" if len(bundles) > 1 else ""
    return f"hot topic in {bundles[0]}{more}   " if bundles else ""


def _over_limits(state: Mapping[str, Any]) -> str:
    """Brokers beyond limits of operators."""
    if state.get("is_full"):
        return "all brokers are beyond their limits: no load moves, add brokers   "
    names = ", ".join(row["broker"] for row in state.get("over_limits", ()))
    return f"beyond limits: {names}   " if names else ""


def _broker(state: Mapping[str, Any], height: int) -> RenderableType:
    session, leader = state["session"], state["leader"]
    ready = "ready" if state["is_ready"] else f"not ready: {state['reason']}"
    states = [word for word in ("stopping", "drained") if state.get(f"is_{word}")]
    lease = f"{duration_text(session['lease_remaining_s'])} of the lease left"
    lines = [
        f"{state['broker']} of cluster {state['cluster']}: {', '.join([ready, *states])}",
        f"session {session['state']}, epoch {session['epoch']}, {lease}",
        f"leader {'none' if leader is None else leader['broker']}"
        + (" (this broker)" if state["is_leader"] else ""),
    ]
    bundles = list(state.get("bundles", ()))
    decisions = [entry | entry["decision"] for entry in state["journal"]][:_MOST_DECISIONS]
    if decisions:
        lines += ["", "latest decisions"]
        lines += [f"  {row['result']}  {sentence_of(row)}" for row in decisions]
    # One line stays free: a terminal scrolls when its last one is written.
    room = height - 1 - len(lines) - 2
    if room > 0:
        lines += ["", f"{len(bundles)} bundles"]
        lines += [
            f"  {row['bundle']}  {row['state']}  token {row['token']}" for row in bundles[:room]
        ]
    return Group(*map(_line, lines[: height - 1]))


def _line(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ellipsis")
