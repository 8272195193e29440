"""``broker-ctl drain``: empty a broker, and see how far that has come."""

from typing import Final

import click

from broker_ctl.cli.balancing.drains import (
    DRAINS,
    drain_path,
    forecast_sentence,
    print_drains,
    wait_drained,
)
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
from broker_ctl.cli.runtime.output import echo_json
from broker_ctl.cli.runtime.target import Target, daemon_options

_EXAMPLES: Final = """\b
Examples:
  broker-ctl drain broker-2:8080 --reason "kernel update" --wait
  broker-ctl drain
  broker-ctl drain broker-2:8080 --dry-run
  broker-ctl undrain broker-2:8080
"""


@click.command(short_help="Drain a broker; show the progress of drains.", epilog=_EXAMPLES)
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
def command(
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
        rows = target.run(lambda client: client.get(DRAINS))
        if target.is_json:
            echo_json(rows)
        else:
            print_drains(rows)
        return
    query = {"force": "true"} if force else {}
    change = Change("PUT", drain_path(broker), query, audit_fields(reason))
    found = send_dry_run(target, change)
    if not confirm(
        target, forecast_sentence(broker, found), dry_run=dry_run, yes=yes, judged=found
    ):
        return
    row = send(target, change).json()
    if wait:
        row = wait_drained(target, broker)
    report_result(
        target, row["state"], _sentence(row["state"], broker, row["bundles_left"]), drain=row
    )


def _sentence(state: str, broker: str, bundles: int) -> str:
    if state == "drained":
        return f"{broker} is empty, and receives nothing until broker-ctl undrain {broker}"
    if state == "absent":
        return f"{broker} is not there; when it is back it receives nothing"
    return f"draining {broker}: {bundles} bundles are left; broker-ctl drain shows how it goes on"
