"""``broker-ctl doctor``: what is wrong on this machine, and what to do."""

import os
import sys
from pathlib import Path
from typing import Final

import click

from broker_ctl.cli.runtime.formats import output_option
from broker_ctl.cli.runtime.settings_options import settings_options
from broker_ctl.cli.runtime.watching import watch_option

_COLUMNS: Final = ("state", "check", "subject", "found")
# As of broker-ctl secrets check.
_CODES: Final = {"ok": 0, "warning": 3, "error": 1}
_EXAMPLES: Final = """\b
Examples:
  broker-ctl doctor --config /etc/broker-ctl/broker.conf
  broker-ctl doctor --config broker.conf --output json
  broker-ctl doctor --set metadataStoreUrl=zk:zk-1:2181 --offline
"""


@click.command(short_help="Find out what is wrong, and what to do.", epilog=_EXAMPLES)
@settings_options("broker.conf of the daemon; without it, environment and --set alone.")
@click.option(
    "--timeout",
    "limit_s",
    type=click.FloatRange(0.1, 60.0),
    default=5.0,
    metavar="SECONDS",
    show_default=True,
    help="Limit of each question to a server.",
)
@click.option(
    "--warn-days",
    type=click.FloatRange(min=0),
    default=30,
    show_default=True,
    help="Days left to a certificate or token below which it is a warning.",
)
@click.option("--offline", "is_offline", is_flag=True, help="Leave out what needs connections.")
@watch_option
@output_option()
def command(
    *,
    configuration: Path | None,
    overrides: tuple[str, ...],
    limit_s: float,
    warn_days: float,
    is_offline: bool,
    output: str,
) -> None:
    """Examine configuration, certificates, clock, limits, disks, ports and ZooKeeper.

    Of ZooKeeper: roles and versions of the servers, tickTime (by the command conf, the admin
    server, or what sessions are granted), latency, and whether nodes are closed to others. Every
    warning and error comes with what to do. Nothing is written. Run it as the user of the daemon.

    Exit codes: 0 nothing was found, 1 errors, 2 wrong option or argument, 3 warnings only.
    """
    from broker_ctl.cli.runtime.output import echo, echo_json, print_table
    from broker_ctl.clock import SystemClock
    from broker_ctl.daemon.doctor.examination import Examination, examine
    from broker_ctl.daemon.doctor.findings import worst
    from broker_ctl.settings.sources import read

    reading = read(configuration, os.environ, overrides)
    findings = examine(reading, SystemClock(), Examination(limit_s, warn_days, is_offline))
    rows = [finding.to_row() for finding in findings]
    state = worst(findings)
    if output == "json":
        echo_json({"state": state.value, "findings": rows})
    else:
        print_table("", _COLUMNS, ([row[name] for name in _COLUMNS] for row in rows))
        for finding in findings:
            if finding.advice:
                who = finding.subject or finding.check
                echo(f"{finding.level}: {who}: {finding.found}: {finding.advice}")
    sys.exit(_CODES[state.value])
