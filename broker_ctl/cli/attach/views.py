"""Views of `broker-ctl attach`: a live table, lines without a terminal, or JSON."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from broker_ctl.cli.balancing.plan_table import print_plan
from broker_ctl.cli.runtime.output import echo, echo_json_line, escape_values, print_table
from broker_ctl.core.cluster.imbalance import imbalance_text

_BAR: Final = 24
_MIB: Final = 1024 * 1024
_MAX_PLANNED: Final = 8
_MAX_ACTIONS: Final = 6
_MAX_BUNDLES: Final = 8
# Without a terminal, an unchanged state is printed again at this interval.
_REPEAT_MS: Final = 60_000
_BROKERS: Final = ("broker", "usage", "msg/s", "MiB/s", "bundles", "report")
_BUNDLES: Final = ("bundle", "owner", "msg/s", "MiB/s", "topics")
_BLOCKER_COLUMNS: Final = ("setting", "now", "effect", "command to disable it")

Snapshot = Mapping[str, Any]


class View:
    """Prints snapshots; this class as one JSON object per line."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """There is nothing to restore."""

    def show(self, snapshot: Snapshot) -> None:
        """Print a snapshot."""
        echo_json_line(snapshot)

    def once(self, snapshot: Snapshot) -> None:
        """Print the only snapshot."""
        self.show(snapshot)


def view_for(*, is_json: bool, is_live: bool) -> View:
    """The view for the options and the terminal."""
    if is_json:
        return View()
    return LiveView() if is_live else LineView()


class LineView(View):
    """Prints changes as lines, if stdout is not a terminal."""

    def __init__(self) -> None:
        self._printed_ms = 0
        self._key: tuple[object, ...] = ()
        self._last_outcome: tuple[int, str] = (0, "")

    def show(self, snapshot: Snapshot) -> None:
        """Print what has changed."""
        at = datetime.fromtimestamp(snapshot["at_ms"] / 1000, UTC).strftime("%H:%M:%S")
        for line in self._new_lines(snapshot):
            echo(f"{at} {line}")

    def once(self, snapshot: Snapshot) -> None:
        """Print all tables."""
        echo(_title(snapshot))
        print_table("", _BROKERS, map(_broker_cells, snapshot["brokers"]))
        print_table(_heaviest(snapshot), _BUNDLES, _bundle_rows(snapshot))
        print_plan(snapshot["plan"])
        if snapshot["cluster_balancer"]:
            print_table(
                "blockers", _BLOCKER_COLUMNS, map(_blocker_cells, snapshot["cluster_balancer"])
            )
        for line in _stuck_lines(snapshot):
            echo(line, err=True)
        if snapshot["metadata_outdated"]:
            echo(f"held back: {snapshot['held_back']}", err=True)
        if "untold" in snapshot:
            echo(
                f"the state of the cluster's own balancer is unknown: {snapshot['untold']}",
                err=True,
            )

    def _new_lines(self, snapshot: Snapshot) -> Iterator[str]:
        """Figures change constantly: they are printed with other changes, and once a minute."""
        if not self._printed_ms and snapshot["console_url"]:
            yield f"console: {snapshot['console_url']}"
        plan = snapshot["plan"]
        outdated = snapshot["metadata_outdated"]
        stuck = [row["bundle"] for row in snapshot["stuck"]]
        key = (snapshot["note"], outdated, *stuck, *_actions_of(plan))
        if key != self._key or snapshot["at_ms"] - self._printed_ms >= _REPEAT_MS:
            self._key, self._printed_ms = key, snapshot["at_ms"]
            yield snapshot["note"] or _title(snapshot)
            yield from _stuck_lines(snapshot)
            if plan is not None:
                yield _plan_line(plan)
                if (plan["decisions"] or outdated) and snapshot["held_back"]:
                    yield f"held back: {snapshot['held_back']}"
                yield from (f"  {row['sentence']}" for row in plan["decisions"][:_MAX_PLANNED])
        if plan is not None:
            yield from self._outcomes(snapshot["decisions"])

    def _outcomes(self, decisions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """Decisions carried out since the last snapshot, oldest first."""
        actions = [row for row in decisions if row["result"] in {"done", "failed"}]
        keys = [(row["at_ms"], row["sentence"]) for row in actions]
        news = actions[: keys.index(self._last_outcome)] if self._last_outcome in keys else actions
        if actions:
            self._last_outcome = keys[0]
        for row in reversed(news):
            why = f": {row['outcome']}" if row["outcome"] else ""
            yield f"{row['result']} in {row['took_s']:.2f} s{why}: {row['sentence']}"


def _stuck_lines(snapshot: Snapshot) -> Iterator[str]:
    for row in snapshot["stuck"]:
        yield (
            f"{row['bundle']} has had no owner for {row['for_s']:.0f} s, since "
            f"{row['last_owner']} gave it up: see the state channel of the load manager"
        )


class LiveView(View):
    """Redraws itself in place."""

    def __init__(self, console: Console | None = None) -> None:
        self._live = Live(console=console or Console(), auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the last table on the screen."""
        self._live.stop()

    def show(self, snapshot: Snapshot) -> None:
        """Redraw the table."""
        self._live.update(Group(*_render(escape_values(snapshot))), refresh=True)


def _render(snapshot: Snapshot) -> Iterator[Table | Text]:
    if snapshot["note"]:
        yield Text(snapshot["note"], style="bold")
    if snapshot["plan"] is not None:
        yield Text(_title(snapshot))
        yield _broker_table(snapshot)
        yield _table(_heaviest(snapshot), _BUNDLES, _bundle_rows(snapshot))
        yield Text(_plan_line(snapshot["plan"]))
        if snapshot["plan"]["decisions"]:
            yield _plan_table(snapshot["plan"])
    if snapshot["held_back"]:
        outdated = snapshot["metadata_outdated"]
        reason = snapshot["held_back"] if outdated else snapshot["held_back"].partition(":")[0]
        yield Text(f"held back: {reason}", style="red" if outdated else "yellow")
    for line in _stuck_lines(snapshot):
        yield Text(line, style="red")
    if snapshot["cluster_balancer"]:
        yield _table(
            "the cluster's own balancer",
            _BLOCKER_COLUMNS,
            map(_blocker_cells, snapshot["cluster_balancer"]),
        )
    if "untold" in snapshot:
        yield Text(
            f"the state of the cluster's own balancer is unknown: {snapshot['untold']}", style="red"
        )
    if snapshot["plan"] is not None:
        actions = [row for row in snapshot["decisions"] if row["result"] in {"done", "failed"}]
        rows = [(row["result"], f"{row['sentence']} {row['outcome']}") for row in actions]
        if rows:
            yield _table("latest actions", ("", ""), rows[:_MAX_ACTIONS])
    console = f"   console: {snapshot['console_url']}" if snapshot["console_url"] else ""
    yield Text(
        f"broker-ctl status --cluster --url {snapshot['url']}{console}   Ctrl-C stops it",
        style="dim",
    )


def _broker_table(snapshot: Snapshot) -> Table:
    table = Table()
    for name in ("broker", "usage", "", "msg/s", "MiB/s", "bundles", "report"):
        table.add_column(name, justify="left" if name in {"broker", "usage"} else "right")
    for broker in snapshot["brokers"]:
        name, usage, *others = _broker_cells(broker)
        bar = "█" * round(min(float(broker["usage_ratio"]), 1.0) * _BAR)
        table.add_row(name, bar, usage, *others)
    return table


def _plan_table(plan: Mapping[str, Any]) -> Table:
    rows = [(row["sentence"],) for row in plan["decisions"][:_MAX_PLANNED]]
    if (more := len(plan["decisions"]) - len(rows)) > 0:
        rows.append((f"and {more} more",))
    return _table("", ("",), rows)


def _table(title: str, columns: Sequence[str], rows: Any) -> Table:
    table = Table(title=title or None, title_justify="left", show_header=any(columns))
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        # Text: rich would take a value in brackets for markup.
        table.add_row(*map(Text, row))
    return table


# Text.


def _title(snapshot: Snapshot) -> str:
    return (
        f"cluster {snapshot['cluster']}: {len(snapshot['brokers'])} brokers, "
        f"{snapshot['bundle_count']} bundles with load data; max over mean usage "
        f"{imbalance_text(snapshot['usage_imbalance'])}, throughput "
        f"{imbalance_text(snapshot['throughput_imbalance'])}{_misplaced(snapshot)}"
    )


def _misplaced(snapshot: Snapshot) -> str:
    if not (count := snapshot["misplaced_bundles"]):
        return ""
    return (
        f"; {count} bundles are on brokers that isolation policies do not allow: broker-ctl plan "
        "--heal-policies"
    )


def _actions_of(plan: Mapping[str, Any] | None) -> list[tuple[object, ...]]:
    """The decisions of a plan without their figures."""
    names = ("kind", "bundle", "source", "destination")
    decisions = () if plan is None else plan["decisions"]
    return [tuple(row.get(name) for name in names) for row in decisions]


def _plan_line(plan: Mapping[str, Any]) -> str:
    if not plan["decisions"]:
        return "no changes planned"
    usage, throughput = (
        f"{imbalance_text(plan[f'{of}_imbalance_before'])} -> "
        f"{imbalance_text(plan[f'{of}_imbalance_after'])}"
        for of in ("usage", "throughput")
    )
    return (
        f"planned: {len(plan['decisions'])} actions, {plan['moves']} of them moves; max over mean "
        f"usage {usage}, throughput {throughput}"
    )


def _broker_cells(broker: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        broker["broker"],
        f"{broker['usage_ratio']:.1%}",
        f"{broker['msg_per_s']:,.0f}",
        f"{broker['throughput_bytes_per_s'] / _MIB:,.1f}",
        str(broker["bundles"]),
        f"{broker['age_s']:.0f} s ago",
    )


def _heaviest(snapshot: Snapshot) -> str:
    shown = len(snapshot["bundles"][:_MAX_BUNDLES])
    return f"the heaviest {shown} of {snapshot['bundle_count']} bundles"


def _bundle_rows(snapshot: Snapshot) -> list[tuple[str, ...]]:
    return [
        (
            row["bundle"],
            row["owner"] or "none",
            f"{row['msg_per_s']:,.0f}",
            f"{row['throughput_bytes_per_s'] / _MIB:,.2f}",
            str(row["topics"]),
        )
        for row in snapshot["bundles"][:_MAX_BUNDLES]
    ]


def _blocker_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    return row["key"], row["value"], row["why"], row["command"]
