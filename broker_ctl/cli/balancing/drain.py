"""``broker-ctl drain`` and ``undrain``: empty a broker, now or later, and use it again."""

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
from broker_ctl.cli.runtime.times import Time
from broker_ctl.cli.runtime.units import duration_text, percent_text, time_text
from broker_ctl.cli.runtime.watching import watch_option

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import Client

_DRAINS: Final = "/control/v1/drains"
_STATUS: Final = "/control/v1/status"
_MOST_RECEIVERS: Final = 5
_COLUMNS: Final = ("broker", "state", "bundles left", "load left", "moves/min", "ETA", "by", "why")
_SCHEDULED_COLUMNS: Final = ("broker", "begins", "ends", "by", "why", "obstacle")
_DRAIN_EXAMPLES: Final = """\b
Examples:
  broker-ctl drain broker-2:8080 --reason "kernel update" --wait
  broker-ctl drain
  broker-ctl drain broker-2:8080 --dry-run
  broker-ctl drain broker-2:8080 --at 2030-01-31T02:00 --until 2030-01-31T04:00
  broker-ctl drain --self --until-restart --wait --yes
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
@click.option("--self", "is_self", is_flag=True, help="Drain the broker of the daemon itself.")
@click.option("--at", "begins_ms", type=Time(), metavar="TIME", help="Begin at this time.")
@click.option("--until", "ends_ms", type=Time(), metavar="TIME", help="End the drain at this time.")
@click.option("--until-restart", is_flag=True, help="End the drain when the broker has restarted.")
@click.option("--wait", is_flag=True, help="Wait until the broker is empty.")
@reason_option
@change_options
@watch_option
@daemon_options
def drain(
    target: Target,
    *,
    broker: str | None,
    force: bool,
    is_self: bool,
    begins_ms: int | None,
    ends_ms: int | None,
    until_restart: bool,
    wait: bool,
    reason: str,
    dry_run: bool,
    yes: bool,
) -> None:
    """Move all bundles away from BROKER; it receives none until `undrain`.

    Bundles move in batches, which grow while the moves are short; a pause does not stop a drain.
    A drain survives leader changes and, unless --until-restart is given, restarts of BROKER. It is
    refused if the usage of the other brokers would exceed loadBalancerHeadroomLimitPercentage,
    unless --force is given. Without BROKER, all drains are shown, the scheduled ones too.

    TIME is a local time (2030-01-31T02:00), one with a zone (2030-01-31T02:00Z), or an offset from
    now (+2h). A drain with --at waits in ZooKeeper until then and is checked again when it begins;
    the same command again changes nothing, another time replaces the earlier one.
    """
    if is_self:
        if broker is not None:
            raise click.UsageError("give either BROKER or --self")
        broker = str(target.run(lambda client: client.get(_STATUS))["broker"])
    if broker is None:
        _show_drains(target)
        return
    if wait and begins_ms is not None:
        raise click.UsageError("--wait is for drains that begin now, not with --at")
    terms = {"begins_ms": begins_ms, "ends_ms": ends_ms, "until_restart": until_restart or None}
    body = audit_fields(reason) | {key: value for key, value in terms.items() if value is not None}
    change = Change("PUT", _drain_path(broker), {"force": "true"} if force else {}, body)
    found = send_dry_run(target, change)
    sentence = _forecast_sentence(broker, found)
    if not confirm(target, sentence, dry_run=dry_run, yes=yes, judged=found):
        return
    row = send(target, change).json()
    if wait:
        row = _wait_drained(target, broker)
    report_result(target, row["state"], _sentence(row), drain=row)


@click.command(short_help="End the drain of a broker.", epilog=_UNDRAIN_EXAMPLES)
@click.argument("broker")
@change_options
@daemon_options
def undrain(target: Target, *, broker: str, dry_run: bool, yes: bool) -> None:
    """End the drain of BROKER: it receives bundles again, not necessarily the same ones.

    A drain that is scheduled is cancelled.
    """
    change = Change("DELETE", _drain_path(broker))
    if not send_dry_run(target, change)["was_drained"]:
        report_result(target, "nothing", f"{broker} is not being drained")
    elif confirm(target, f"undrain {broker}", dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "undrained", f"{broker} receives bundles again")


def _sentence(row: Mapping[str, Any]) -> str:
    broker, state = row["broker"], row["state"]
    if state == "scheduled":
        return f"{broker} will be drained {_period(row)}; broker-ctl undrain {broker} cancels it"
    if state == "drained":
        return f"{broker} is empty and receives no bundles {_end(row)}"
    if state == "absent":
        return f"{broker} is not registered; it will receive no bundles when it returns"
    bundles = row["bundles_left"]
    return f"draining {broker}: {bundles} bundles left; broker-ctl drain shows the progress"


def _period(row: Mapping[str, Any]) -> str:
    return f"at {time_text(row['begins_ms'])}, {_end(row)}"


def _end(row: Mapping[str, Any]) -> str:
    """When a drain ends: whichever comes first."""
    ends = [f"broker-ctl undrain {row['broker']}"]
    if row.get("until_restart"):
        ends.insert(0, "its restart")
    if row.get("ends_ms"):
        ends.insert(0, time_text(row["ends_ms"]))
    return "until " + " or ".join(ends)


def _show_drains(target: Target) -> None:
    rows = target.run(lambda client: client.get(_DRAINS))
    if target.is_json:
        echo_json(rows)
        return
    _print_drains([row for row in rows if row["state"] != "scheduled"])
    if scheduled := [row for row in rows if row["state"] == "scheduled"]:
        cells = (
            (
                row["broker"],
                time_text(row["begins_ms"]),
                _end(row).removeprefix("until "),
                row["by"],
                row["reason"],
                row["obstacle"],
            )
            for row in scheduled
        )
        print_table("scheduled", _SCHEDULED_COLUMNS, cells)


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

    if found.get("state") == "scheduled":
        return f"drain {broker_id} {_period(found)}"
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
