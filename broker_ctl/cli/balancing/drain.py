"""``broker-ctl drain`` and ``undrain``: empty a broker, and use it again."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from broker_ctl.cli.runtime.confirmation import (
    Change,
    audit_fields,
    change_options,
    confirm,
    reason_option,
    report_result,
    send,
    send_dry_run,
)
from broker_ctl.cli.runtime.output import echo_json, print_table
from broker_ctl.cli.runtime.progress import Stage, poll_until
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.units import duration_text, percent_text

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import Client

_DRAINS: Final = "/control/v1/drains"
_MOST_RECEIVERS: Final = 5
_COLUMNS: Final = ("broker", "state", "bundles left", "load left", "moves/min", "ETA", "by", "why")
_DRAIN_EXAMPLES: Final = """\b
Examples:
  broker-ctl drain broker-2:8080 --reason "kernel update" --wait
  broker-ctl drain
  broker-ctl drain broker-2:8080 --dry-run
  broker-ctl undrain broker-2:8080
"""
_UNDRAIN_EXAMPLES: Final = """\b
Examples:
  broker-ctl undrain broker-2:8080
"""


@click.command(short_help="Drain a broker; show the progress of drains.", epilog=_DRAIN_EXAMPLES)
@click.argument("broker", required=False)
@click.option(
    "--force",
    is_flag=True,
    help="Drain even if the other brokers lack the capacity for its load.",
)
@click.option("--wait", is_flag=True, help="Wait until the broker is empty.")
@reason_option
@change_options
@daemon_options
def drain(
    target: Target,
    *,
    broker: str | None,
    force: bool,
    wait: bool,
    reason: str,
    dry_run: bool,
    yes: bool,
) -> None:
    """Move all bundles away from BROKER; it receives none until `undrain`.

    Bundles move in small batches within the limits of moves in flight; a pause does not stop a
    drain. A drain survives leader changes and restarts of BROKER. It is refused if the usage of
    the other brokers would exceed loadBalancerHeadroomLimitPercentage, unless --force is given.
    Without BROKER, all drains are shown.
    """
    if broker is None:
        rows = target.run(lambda client: client.get(_DRAINS))
        if target.is_json:
            echo_json(rows)
        else:
            _print_drains(rows)
        return
    query = {"force": "true"} if force else {}
    change = Change("PUT", _drain_path(broker), query, audit_fields(reason))
    found = send_dry_run(target, change)
    if not confirm(
        target, _forecast_sentence(broker, found), dry_run=dry_run, yes=yes, judged=found
    ):
        return
    row = send(target, change).json()
    if wait:
        row = _wait_drained(target, broker)
    report_result(
        target, row["state"], _sentence(row["state"], broker, row["bundles_left"]), drain=row
    )


@click.command(short_help="End the drain of a broker.", epilog=_UNDRAIN_EXAMPLES)
@click.argument("broker")
@change_options
@daemon_options
def undrain(target: Target, *, broker: str, dry_run: bool, yes: bool) -> None:
    """End the drain of BROKER: it receives bundles again, not necessarily the same ones."""
    change = Change("DELETE", _drain_path(broker))
    if not send_dry_run(target, change)["was_drained"]:
        report_result(target, "nothing", f"{broker} is not being drained")
    elif confirm(target, f"undrain {broker}", dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "undrained", f"{broker} receives bundles again")


def _sentence(state: str, broker: str, bundles: int) -> str:
    if state == "drained":
        return f"{broker} is empty and receives no bundles until broker-ctl undrain {broker}"
    if state == "absent":
        return f"{broker} is not registered; it will receive no bundles when it returns"
    return f"draining {broker}: {bundles} bundles left; broker-ctl drain shows the progress"


def _drain_path(broker_id: str) -> str:
    """The path of a broker's drain in the API."""
    return f"{_DRAINS}/{quote(broker_id, safe=':')}"


async def _drain_row(client: "Client", broker_id: str) -> dict[str, Any]:
    """The progress of a broker's drain.

    Raises:
        ClickException: there is no drain of this broker (any more).
    """
    rows: list[dict[str, Any]] = await client.get(_DRAINS)
    for row in rows:
        if row["broker"] == broker_id:
            return row
    raise click.ClickException(f"{broker_id} is not being drained")


def _print_drains(rows: list[Mapping[str, Any]]) -> None:
    """Print a table of drains."""
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


def _forecast_sentence(broker_id: str, found: Mapping[str, Any]) -> str:
    """What a drain would do, from the leader's dry run."""
    from broker_ctl.core.model.load_vector import throughput_text

    if "receivers" not in found:
        return f"drain {broker_id}, which is already drained"
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


def _wait_drained(target: Target, broker_id: str) -> Mapping[str, Any]:
    """Show the progress until the broker is empty or gone."""
    return target.run(
        lambda client: poll_until(
            target,
            lambda: _drain_row(client, broker_id),
            _stage,
            lambda row: row["state"] != "draining",
        )
    )


def _stage(row: Mapping[str, Any]) -> Stage:
    words = f"{row['bundles_left']} bundles left, ETA {duration_text(row['eta_s'])}"
    return Stage(row["progress_ratio"], 1.0, words)
