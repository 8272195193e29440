"""The pictures of `broker-ctl attach`: a live table, lines without a terminal, or JSON."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from broker_ctl.cli.balancing.plan_table import print_plan
from broker_ctl.cli.runtime.output import print_table
from broker_ctl.codec import encode
from broker_ctl.core.cluster.imbalance import imbalance_text

_BAR: Final = 24
_MIB: Final = 1024 * 1024
_MOST_PLANNED: Final = 8
_MOST_DECIDED: Final = 6
_MOST_BUNDLES: Final = 8
# Without a terminal the same is said again after so long.
_AGAIN_MS: Final = 60_000
_BROKERS: Final = ("broker", "usage", "msg/s", "MiB/s", "bundles", "report")
_BUNDLES: Final = ("bundle", "owner", "msg/s", "MiB/s", "topics")
_WAYS: Final = ("setting", "now", "effect", "command to disable it")

Picture = Mapping[str, Any]


class Shows:
    """Shows one picture after another; as such, one JSON object a line."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is to be put back."""

    def show(self, seen: Picture) -> None:
        """The newest picture."""
        click.echo(encode(seen).decode())

    def once(self, seen: Picture) -> None:
        """The only one."""
        self.show(seen)


def shown_as(*, is_json: bool, is_live: bool) -> Shows:
    """As is asked for, and as the output allows."""
    if is_json:
        return Shows()
    return LiveTable() if is_live else Lines()


class Lines(Shows):
    """For people, without a terminal: what is new, a line each."""

    def __init__(self) -> None:
        self._told_ms = 0
        self._key: tuple[object, ...] = ()
        self._decided: tuple[int, str] = (0, "")

    def show(self, seen: Picture) -> None:
        """What is new in it."""
        at = datetime.fromtimestamp(seen["at_ms"] / 1000, UTC).strftime("%H:%M:%S")
        for line in self._news(seen):
            click.echo(f"{at} {line}")

    def once(self, seen: Picture) -> None:
        """Tables, one after the other."""
        click.echo(_title(seen))
        print_table("", _BROKERS, map(_broker_cells, seen["brokers"]))
        print_table(_heaviest(seen), _BUNDLES, _bundle_rows(seen))
        print_plan(seen["plan"])
        if seen["cluster_balancer"]:
            print_table("blockers", _WAYS, map(_way_cells, seen["cluster_balancer"]))
        if "untold" in seen:
            click.echo(
                f"the state of the cluster's own balancer is unknown: {seen['untold']}", err=True
            )

    def _news(self, seen: Picture) -> Iterator[str]:
        """Figures change all the time: they are told with what is new, and now and then."""
        plan = seen["plan"]
        key = (seen["note"], *_acts_of(plan))
        if key != self._key or seen["at_ms"] - self._told_ms >= _AGAIN_MS:
            self._key, self._told_ms = key, seen["at_ms"]
            yield seen["note"] or _title(seen)
            if plan is not None:
                yield _plan_line(plan)
                if plan["decisions"] and seen["held_back"]:
                    yield f"held back: {seen['held_back']}"
                yield from (f"  {row['sentence']}" for row in plan["decisions"][:_MOST_PLANNED])
        if plan is not None:
            yield from self._outcomes(seen["decisions"])

    def _outcomes(self, decisions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """What was carried out since, or was tried, the oldest first."""
        acts = [row for row in decisions if row["result"] in {"done", "failed"}]
        keys = [(row["at_ms"], row["sentence"]) for row in acts]
        news = acts[: keys.index(self._decided)] if self._decided in keys else acts
        if acts:
            self._decided = keys[0]
        for row in reversed(news):
            why = f": {row['outcome']}" if row["outcome"] else ""
            yield f"{row['result']} in {row['took_s']:.2f} s{why}: {row['sentence']}"


class LiveTable(Shows):
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
        """Leave the last picture where it is."""
        self._live.stop()

    def show(self, seen: Picture) -> None:
        """Draw it."""
        self._live.update(Group(*_drawn(seen)), refresh=True)


def _drawn(seen: Picture) -> Iterator[Table | Text]:
    if seen["note"]:
        yield Text(seen["note"], style="bold")
    if seen["plan"] is not None:
        yield Text(_title(seen))
        yield _brokers(seen)
        yield _table(_heaviest(seen), _BUNDLES, _bundle_rows(seen))
        yield Text(_plan_line(seen["plan"]))
        if seen["plan"]["decisions"]:
            yield _planned(seen["plan"])
    if seen["held_back"]:
        yield Text("held back: " + seen["held_back"].partition(":")[0], style="yellow")
    if seen["cluster_balancer"]:
        yield _table("the cluster's own balancer", _WAYS, map(_way_cells, seen["cluster_balancer"]))
    if "untold" in seen:
        yield Text(
            f"the state of the cluster's own balancer is unknown: {seen['untold']}", style="red"
        )
    if seen["plan"] is not None:
        acts = [row for row in seen["decisions"] if row["result"] in {"done", "failed"}]
        rows = [(row["result"], f"{row['sentence']} {row['outcome']}") for row in acts]
        if rows:
            yield _table("latest actions", ("", ""), rows[:_MOST_DECIDED])
    yield Text(f"broker-ctl status --cluster --url {seen['url']}   Ctrl-C ends it", style="dim")


def _brokers(seen: Picture) -> Table:
    table = Table()
    for name in ("broker", "usage", "", "msg/s", "MiB/s", "bundles", "report"):
        table.add_column(name, justify="left" if name in {"broker", "usage"} else "right")
    for broker in seen["brokers"]:
        name, usage, *others = _broker_cells(broker)
        bar = "█" * round(min(float(broker["usage_ratio"]), 1.0) * _BAR)
        table.add_row(name, bar, usage, *others)
    return table


def _planned(plan: Mapping[str, Any]) -> Table:
    rows = [(row["sentence"],) for row in plan["decisions"][:_MOST_PLANNED]]
    if (more := len(plan["decisions"]) - len(rows)) > 0:
        rows.append((f"and {more} more",))
    return _table("", ("",), rows)


def _table(title: str, columns: Sequence[str], rows: Any) -> Table:
    table = Table(title=title or None, title_justify="left", show_header=any(columns))
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        # Text: a value in brackets is no markup.
        table.add_row(*map(Text, row))
    return table


# Words.


def _title(seen: Picture) -> str:
    return (
        f"cluster {seen['cluster']}: {len(seen['brokers'])} brokers, {seen['bundle_count']} "
        f"bundles with load data; max over mean usage {imbalance_text(seen['usage_imbalance'])}, "
        f"throughput {imbalance_text(seen['throughput_imbalance'])}"
    )


def _acts_of(plan: Mapping[str, Any] | None) -> list[tuple[object, ...]]:
    """What a plan would do, whatever figures speak for it."""
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
        f"planned: {len(plan['decisions'])} acts, of them {plan['moves']} moves; max over mean "
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


def _heaviest(seen: Picture) -> str:
    shown = len(seen["bundles"][:_MOST_BUNDLES])
    return f"the heaviest {shown} of {seen['bundle_count']} bundles"


def _bundle_rows(seen: Picture) -> list[tuple[str, ...]]:
    return [
        (
            row["bundle"],
            row["owner"] or "nobody",
            f"{row['msg_per_s']:,.0f}",
            f"{row['throughput_bytes_per_s'] / _MIB:,.2f}",
            str(row["topics"]),
        )
        for row in seen["bundles"][:_MOST_BUNDLES]
    ]


def _way_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    return row["key"], row["value"], row["why"], row["command"]
