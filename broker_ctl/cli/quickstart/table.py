"""The live table of a demo cluster, cut to the height of the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from broker_ctl.cli.quickstart.demo_topic import sentence
from broker_ctl.cli.runtime.output import sentence_of
from broker_ctl.core.cluster.imbalance import imbalance_text
from broker_ctl.embedded.load_client import LoadClientStatistics

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
            self._live.update(render(snapshot, self._live.console.height), refresh=True)


def render(snapshot: DemoSnapshot, height: int) -> RenderableType:
    """At most ``height`` lines: brokers, decisions, addresses, then bundles."""
    return render_cluster(snapshot.overview, _foot(snapshot), height)


def render_cluster(
    overview: dict[str, Any], foot: Sequence[RenderableType], height: int
) -> RenderableType:
    """The leader's overview above ``foot``; if lines are short, the brokers with the most load."""
    if not overview:
        return Text("waiting for the leader's first overview")
    decisions = list(overview["decisions"])[: _DECISIONS_SHOWN[height >= _HIGH]]
    most = max(1, height - 1 - 2 * _HEAD - len(decisions) - len(foot))
    if len(overview["brokers"]) > most:
        fullest = sorted(overview["brokers"], key=lambda broker: -float(broker["usage_ratio"]))
        overview = {**overview, "brokers": fullest[:most]}
    taken = _HEAD + len(overview["brokers"]) + 1 + len(decisions) + len(foot)
    # One line stays free: a terminal scrolls when its last one is written.
    room = height - 1 - taken - _HEAD
    parts: list[RenderableType] = [_brokers(overview)]
    if room > 0:
        parts.append(_bundles(overview, room))
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


def _bundles(overview: dict[str, Any], room: int) -> Table:
    bundles = list(overview["bundles"])
    title = f"{len(bundles)} bundles"
    if len(bundles) > room:
        title += f", the {room} with the most traffic"
        bundles = sorted(bundles, key=lambda bundle: -bundle["throughput_bytes_per_s"])[:room]
    table = _table(title)
    for name in ("bundle", "owner", "msg/s", "MiB/s", "topics"):
        table.add_column(
            name, justify="left" if name in {"bundle", "owner"} else "right", no_wrap=True
        )
    for bundle in bundles:
        table.add_row(
            bundle["bundle"],
            bundle["owner"] or "-",
            f"{bundle['msg_per_s']:,.0f}",
            f"{bundle['throughput_bytes_per_s'] / _MIB:.1f}",
            str(bundle["topics"]),
        )
    return table


def _decisions(rows: Sequence[dict[str, Any]]) -> Table:
    """The newest first, each in one line."""
    table = _table("last decisions", is_headed=False)
    table.add_column(
        no_wrap=True, min_width=max((len(row.get("result", "")) for row in rows), default=0)
    )
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for row in rows:
        table.add_row(row.get("result", ""), sentence_of(row))
    return table


def _foot(snapshot: DemoSnapshot) -> list[Text]:
    client, urls = snapshot.client, snapshot.urls
    lines = [
        f"lookups {client.lookups}, failed {client.failures}   Ctrl-C stops everything",
        f"try: broker-ctl status --cluster --url {urls[0]}   metrics: {urls[0]}/metrics",
    ]
    if snapshot.replicated:
        lines.insert(0, sentence(snapshot.replicated))
    foot = [Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in lines]
    ended = (Text(line, style="red", no_wrap=True, overflow="ellipsis") for line in snapshot.ended)
    return [*ended, *foot]
