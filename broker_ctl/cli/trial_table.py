"""The live table of a trial cluster."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from broker_ctl.cli.trial_partitions import sentence
from broker_ctl.embedded.load_client import LoadClientStatistics

_DECISIONS_SHOWN: Final = 6
_BAR: Final = 24
_MIB: Final = 1024 * 1024


class TrialTable:
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

    def show(
        self,
        overview: dict[str, Any],
        client: LoadClientStatistics,
        urls: Sequence[str],
        replicated: dict[str, Any],
    ) -> None:
        """Draw the newest picture; ``replicated`` is the controller's, empty without one."""
        if self._live is None:
            return
        if not overview:
            self._live.update(Text("waiting for the leader's first picture"), refresh=True)
            return
        self._live.update(
            Group(
                _brokers(overview),
                _bundles(overview),
                _decisions(overview),
                Text(sentence(replicated) if replicated else ""),
                Text(
                    f"lookups {client.lookups}, failed {client.failures}   "
                    f"metrics: {'  '.join(f'{url}/metrics' for url in urls)}",
                    style="dim",
                ),
            ),
            refresh=True,
        )


def _brokers(overview: dict[str, Any]) -> Table:
    leader, imbalance = overview.get("leader"), float(overview["imbalance"]["usage"])
    table = Table(
        title=f"epoch {overview['epoch']}, cycle {overview['cycle']}, imbalance {imbalance:.2f}",
        title_justify="left",
    )
    for name in ("broker", "", "usage", "", "msg/s", "MiB/s", "bundles"):
        table.add_column(name, justify="right" if name in {"msg/s", "MiB/s", "bundles"} else "left")
    for broker in overview["brokers"]:
        usage = float(broker["usage"])
        table.add_row(
            broker["broker"],
            "leader" if broker["broker"] == leader else "draining" * bool(broker["draining"]),
            "█" * round(min(usage, 1.0) * _BAR),
            f"{usage:.0%}",
            f"{broker['msg_rate']:,.0f}",
            f"{broker['throughput'] / _MIB:.1f}",
            str(broker["bundles"]),
        )
    return table


def _bundles(overview: dict[str, Any]) -> Table:
    table = Table(title="bundles", title_justify="left")
    for name in ("bundle", "owner", "msg/s", "MiB/s", "topics"):
        table.add_column(name, justify="left" if name in {"bundle", "owner"} else "right")
    for bundle in overview["bundles"]:
        table.add_row(
            bundle["bundle"],
            bundle["owner"] or "-",
            f"{bundle['msg_rate']:,.0f}",
            f"{bundle['throughput'] / _MIB:.1f}",
            str(bundle["topics"]),
        )
    return table


def _decisions(overview: dict[str, Any]) -> Table:
    table = Table(title="last decisions", title_justify="left", show_header=False)
    for row in list(overview["decisions"])[:_DECISIONS_SHOWN]:
        table.add_row(row.get("result", ""), row["sentence"])
    return table
