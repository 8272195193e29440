"""``broker-ctl secrets``: the files of secrets and certificates of a configuration."""

import datetime as dt
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.runtime.output import output_option
from broker_ctl.cli.runtime.target import settings_options
from broker_ctl.cli.runtime.verbs import VerbGroup

if TYPE_CHECKING:
    from broker_ctl.daemon.secrets import CheckedFile


# ``broker-ctl secrets check``.


_COLUMNS: Final = ("setting", "state", "mode", "days_left", "file")
# Exit code if there are warnings only; 1 and 2 are taken by errors and wrong options.
_WARNINGS: Final = 3
# \b keeps click from joining the lines.
_CHECK_EXAMPLES: Final = """\b
Examples:
  broker-ctl secrets check --config /etc/broker-ctl/broker.conf
  broker-ctl secrets check --config broker.conf --warn-days 60 --output json
"""


@click.command("check", short_help="Check the files of a configuration.", epilog=_CHECK_EXAMPLES)
@settings_options("broker.conf of the daemon; without it, environment and --set alone.")
@click.option(
    "--warn-days",
    type=click.FloatRange(min=0),
    default=30,
    show_default=True,
    help="Days left to a certificate or token below which it is a warning.",
)
@output_option()
def check(
    configuration: Path | None, overrides: tuple[str, ...], warn_days: float, output: str
) -> None:
    """Read every file of secrets and certificates as a daemon would at its start.

    Shows for each whether it can be read, its mode, and how many days are left; whether keys
    belong to their certificates, whether certificates are accepted at the advertised addresses and
    by the other brokers, and which keys, tokens and passwords are weak. No connection is made, and
    no secret is shown. Run it as the user of the daemon.

    Exit codes: 0 nothing was found, 1 errors, 2 wrong option or argument, 3 warnings only.
    """
    from broker_ctl.cli.runtime.output import echo, echo_json, print_table
    from broker_ctl.clock import SystemClock
    from broker_ctl.daemon.secrets import check_secrets
    from broker_ctl.settings.sources import load

    settings, clock = load(configuration, os.environ, overrides), SystemClock()
    with _quiet():
        files = check_secrets(settings, clock, warn_days)
    rows = [_row(file, clock.wall_ms() / 1000) for file in files]
    if output == "json":
        echo_json({"state": _worst(files), "files": rows})
    else:
        print_table("", _COLUMNS, ([row[name] for name in _COLUMNS] for row in rows))
        for file in files:
            for text in file.errors:
                echo(f"error: {file.key}={file.path}: {text}", err=True)
            for text in file.warnings:
                echo(f"warning: {file.key}={file.path}: {text}", err=True)
    sys.exit({"ok": 0, "warning": _WARNINGS, "error": 1}[_worst(files)])


@contextmanager
def _quiet() -> Iterator[None]:
    """Warnings of readers are shown with their file, not logged."""
    logger = logging.getLogger("broker_ctl")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _worst(files: "Sequence[CheckedFile]") -> str:
    states = {file.state.value for file in files}
    return next(state for state in ("error", "warning", "ok") if state in {*states, "ok"})


def _row(file: "CheckedFile", now_s: float) -> dict[str, Any]:
    days = file.days_left(now_s)
    ends = file.ends_at_s
    return {
        "setting": file.key,
        "file": str(file.path),
        "state": file.state.value,
        "mode": file.mode,
        "ends_at": None if ends is None else dt.datetime.fromtimestamp(ends, dt.UTC).isoformat(),
        "days_left": None if days is None else round(days, 1),
        "errors": file.errors,
        "warnings": file.warnings,
    }


# ``broker-ctl secrets``: the files of secrets and certificates of a configuration.


# \b keeps click from joining the lines.
_EXAMPLES: Final = """\b
Examples:
  broker-ctl secrets check --config /etc/broker-ctl/broker.conf
"""


@click.group(cls=VerbGroup, name="secrets", epilog=_EXAMPLES)
def command() -> None:
    """Files of secrets and certificates that a configuration names."""


command.add_command(check, "check")
