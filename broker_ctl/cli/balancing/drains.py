"""What ``broker-ctl drain`` and ``undrain`` share: how far drains have come."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from broker_ctl.cli.runtime.output import print_table
from broker_ctl.cli.runtime.progress import Stage, poll_until
from broker_ctl.cli.runtime.target import Target
from broker_ctl.cli.runtime.units import duration_text, percent_text

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import Client

DRAINS: Final = "/control/v1/drains"
_MOST_RECEIVERS: Final = 5
_COLUMNS: Final = ("broker", "state", "bundles left", "load left", "moves/min", "ETA", "by", "why")


def drain_path(broker_id: str) -> str:
    """Where the drain of a broker is served."""
    return f"{DRAINS}/{quote(broker_id, safe=':')}"


async def drain_row(client: "Client", broker_id: str) -> dict[str, Any]:
    """How far the drain of a broker has come.

    Raises:
        ClickException: it is not drained (any more).
    """
    rows: list[dict[str, Any]] = await client.get(DRAINS)
    for row in rows:
        if row["broker"] == broker_id:
            return row
    raise click.ClickException(f"{broker_id} is not being drained")


def print_drains(rows: list[Mapping[str, Any]]) -> None:
    """One line each."""
    from broker_ctl.core.model.load_vector import throughput_text

    print_table(
        "",
        _COLUMNS,
        (
            (
                row["broker"],
                row["state"],
                f"{row['bundles_left']} of {row['bundles_begun']}",
                throughput_text(row["throughput_left_bytes_per_s"]),
                row["moves_per_s"] * 60,
                duration_text(row["eta_s"]),
                row["by"],
                row["reason"],
            )
            for row in rows
        ),
    )


def forecast_sentence(broker_id: str, found: Mapping[str, Any]) -> str:
    """What a drain would do, as the leader judges it."""
    from broker_ctl.core.model.load_vector import throughput_text

    if "receivers" not in found:
        return f"drain {broker_id}, which is drained already"
    shown = [
        f"{row['broker']} ({row['bundles']}, {percent_text(row['usage_before_ratio'])} -> "
        f"{percent_text(row['usage_after_ratio'])})"
        for row in found["receivers"][:_MOST_RECEIVERS]
    ]
    more = len(found["receivers"]) - len(shown)
    shown += [f"{more} more"] if more else []
    load = throughput_text(found["throughput_bytes_per_s"])
    sentence = f"drain {broker_id}: {found['bundles']} bundles, {load}"
    if shown:
        sentence += f", to {', '.join(shown)}"
    staying = found["staying"]
    if staying:
        first = staying[0]
        sentence += f"; {len(staying)} would stay, first {first['bundle']}: {first['why']}"
    return sentence


def wait_drained(target: Target, broker_id: str) -> Mapping[str, Any]:
    """Show how it goes on until nothing is left at the broker, or it is gone."""
    return target.run(
        lambda client: poll_until(
            target,
            lambda: drain_row(client, broker_id),
            _stage,
            lambda row: row["state"] != "draining",
        )
    )


def _stage(row: Mapping[str, Any]) -> Stage:
    words = f"{row['bundles_left']} bundles left, ETA {duration_text(row['eta_s'])}"
    return Stage(row["progress_ratio"], 1.0, words)
