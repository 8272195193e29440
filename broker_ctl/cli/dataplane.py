"""``broker-ctl dataplane``: tools for developers of broker processes."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from broker_ctl.cli.runtime.output import echo_json, output_option
from broker_ctl.cli.runtime.secret_files import cleartext_option, read_secret_file, require_private
from broker_ctl.cli.runtime.verbs import VerbGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker_ctl.lab.conformance.runner import CheckResult

# \b keeps click from joining the lines.
_EXAMPLE = """\b
Examples:
  broker-ctl dataplane check http://127.0.0.1:9090 --secret-file dataplane.secret
"""


@click.group(cls=VerbGroup, name="dataplane", epilog=_EXAMPLE)
def command() -> None:
    """Tools for a broker process that serves the messages."""


@command.command(epilog=_EXAMPLE)
@click.argument("url")
@click.option(
    "--secret-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="File with the secret shared with the broker process.",
)
@click.option(
    "--authority-listen",
    default="127.0.0.1:8080",
    show_default=True,
    metavar="HOST:PORT",
    help=(
        "HOST:PORT at which the broker process polls its authority; the check listens "
        "there in place of the daemon."
    ),
)
@cleartext_option("a broker process")
@output_option()
def check(url: str, secret_file: Path, authority_listen: str, output: str) -> None:
    """Check that the broker process at URL implements the data-plane API.

    Loads, moves and unloads bundles of the tenant broker-ctl-check only; if the process has
    replicas, creates and deletes those of the topic broker-ctl-check-replicas. The daemon of this
    broker must be stopped: the check replaces it, grants and withholds authority, and verifies that
    the broker process obeys. Takes about ten seconds.

    Exit code: 0 if every check passed, 1 if one failed, 2 for a wrong option.
    """
    from broker_ctl.clock import SystemClock
    from broker_ctl.lab.conformance.runner import check_broker

    listen = _parse_listen(authority_listen)
    require_private(url, "secret")
    secret = _read_secret(secret_file)
    results = asyncio.run(check_broker(url, secret, listen, SystemClock()))
    if output == "json":
        echo_json(_as_row(url, results))
    else:
        print(_as_table(results))
    sys.exit(0 if all(result.is_ok for result in results) else 1)


def _as_row(url: str, results: "Sequence[CheckResult]") -> dict[str, Any]:
    checks = [
        {"name": result.name, "ok": result.is_ok, "expected": result.expected, "seen": result.seen}
        for result in results
    ]
    return {"url": url, "checks": checks}


def _as_table(results: "Sequence[CheckResult]") -> str:
    lines = []
    for result in results:
        lines.append(f"{'ok    ' if result.is_ok else 'FAILED'}  {result.name}")
        if not result.is_ok:
            lines.append(f"        expected: {result.expected}")
            lines.append(f"        seen:     {result.seen}")
    passed = sum(result.is_ok for result in results)
    return "\n".join([*lines, f"{passed} of {len(results)} checks passed"])


def _parse_listen(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise click.BadParameter(f"{text!r} is not HOST:PORT", param_hint="--authority-listen")
    return host.strip("[]"), int(port)


def _read_secret(path: Path) -> str:
    secret = read_secret_file(path, "--secret-file").decode(errors="replace").strip()
    if not secret.isascii() or not secret.isprintable() or not secret:
        raise click.BadParameter(f"{path} does not contain a secret", param_hint="--secret-file")
    return secret
