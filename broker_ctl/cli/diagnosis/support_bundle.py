"""``broker-ctl support-bundle``: what those who look for a fault need, without secrets."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.runtime.output import echo, echo_json, print_table
from broker_ctl.cli.runtime.output_files import atomic_output, check_new
from broker_ctl.cli.runtime.settings_options import config_option
from broker_ctl.cli.runtime.target import Target, daemon_options

if TYPE_CHECKING:
    from broker_ctl.cli.diagnosis.bundle_file import BundleFile
    from broker_ctl.cli.runtime.client import Client
    from broker_ctl.settings.sources import Reading

_EXAMPLES: Final = """\b
Examples:
  broker-ctl support-bundle --config /etc/broker-ctl/broker.conf
  broker-ctl support-bundle --config broker.conf --log /var/log/broker-ctl.log --out fault.tar.gz
  broker-ctl support-bundle --url http://broker-2:8080 --token-file admin.token
"""
_COLUMNS: Final = ("name", "size", "note")
_PATHS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "daemon/metrics.txt": ("/metrics", {}),
    "daemon/status.json": ("/control/v1/status", {}),
    "daemon/stacks.txt": ("/control/v1/stacks", {}),
    "daemon/load-report.json": ("/admin/v2/broker-stats/load-report", {}),
    "daemon/configuration.json": ("/admin/v2/brokers/configuration/runtime", {}),
    "leader/cluster.json": ("/control/v1/cluster", {}),
    "leader/history.json": ("/control/v1/history", {"limit": "500"}),
    "leader/plan.json": ("/control/v1/plan", {"verbose": "true"}),
    "leader/plans.json": ("/control/v1/plans", {}),
    "leader/drains.json": ("/control/v1/drains", {}),
    "leader/pause.json": ("/control/v1/pause", {}),
    "leader/rollout.json": ("/control/v1/rollout", {}),
    "controller/controller.json": ("/control/v1/partitions/controller", {}),
    "controller/transitions.json": ("/control/v1/partitions/transitions", {"limit": "500"}),
    "controller/reassignments.json": ("/control/v1/partitions/reassignments", {}),
}


@click.command(short_help="Collect what helps to find a fault.", epilog=_EXAMPLES)
@config_option("broker.conf of the daemon: adds the settings, and what doctor finds.", exists=True)
@click.option(
    "--unit",
    default="broker-ctl",
    show_default=True,
    metavar="NAME",
    help="systemd unit whose journal is added.",
)
@click.option(
    "--log",
    "logs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File whose end is added, such as a log; repeatable.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write.  [default: broker-ctl-support-HOST-TIME.tar.gz]",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@daemon_options
def command(
    target: Target,
    *,
    configuration: Path | None,
    unit: str,
    logs: tuple[Path, ...],
    out: Path | None,
    force: bool,
) -> None:
    """Write a tar.gz: settings, findings of doctor, metrics, status, decisions, stacks, journal.

    What cannot be had is named in manifest.json. Each part is bounded, all together by 48 MiB.
    Secrets are taken out: the contents of the files of secrets in --config, and whatever looks like
    a key, a token or a password. Look into it before you send it anyway: names of hosts, roles,
    namespaces and topics stay.
    """
    from broker_ctl.cli.diagnosis.bundle_file import BundleFile
    from broker_ctl.cli.diagnosis.known_secrets import known_secrets
    from broker_ctl.cli.diagnosis.local_facts import add_journal, add_logs, add_machine
    from broker_ctl.cli.diagnosis.redaction import Redaction
    from broker_ctl.clock import SystemClock
    from broker_ctl.settings.sources import read

    at = datetime.fromtimestamp(SystemClock().wall_ms() / 1000, UTC)
    top = f"broker-ctl-support-{os.uname().nodename}-{at:%Y%m%dT%H%M%SZ}"
    path = Path(f"{top}.tar.gz") if out is None else out
    check_new(path, "--out", is_forced=force)
    reading = None if configuration is None else read(configuration, os.environ, ())
    secrets = [] if reading is None else list(known_secrets(reading.settings))
    if target.token is not None:
        secrets.append(target.token)
    bundle = BundleFile(top, at.timestamp(), Redaction(secrets))
    add_machine(bundle)
    if reading is None:
        bundle.miss("settings.json", "no --config")
    else:
        _add_settings(bundle, reading)
    target.run(lambda client: _ask(bundle, client))
    add_journal(bundle, unit)
    add_logs(bundle, logs)
    with atomic_output(path) as beside:
        bundle.write(beside)
    _report(target, path, bundle.rows)


def _add_settings(bundle: "BundleFile", reading: "Reading") -> None:
    """The effective settings with their origins, and what doctor finds."""
    from broker_ctl.clock import SystemClock
    from broker_ctl.daemon.doctor.examination import Examination, examine
    from broker_ctl.settings.root import DECLARATIONS

    settings = reading.settings
    rows = [
        {"key": key, "value": settings.text(key), "origin": settings.origin(key)}
        for key in DECLARATIONS
    ]
    # Of other keys the value is left out: an unknown one may be a password.
    others = [{"key": one.key, "origin": one.origin} for one in (*reading.unused, *reading.unknown)]
    bundle.add_json("settings.json", {"settings": rows, "without_effect": others})
    findings = examine(reading, SystemClock(), Examination(limit_s=5.0, warn_days=30))
    bundle.add_json("doctor.json", [finding.to_row() for finding in findings])


async def _ask(bundle: "BundleFile", client: "Client") -> None:
    """What the daemon, the leader and the controller say; each may be away."""
    from broker_ctl.errors import HttpError

    for name, (path, query) in _PATHS.items():
        try:
            reply = await client.request("GET", path, query)
        except (HttpError, click.ClickException) as error:
            bundle.miss(name, str(error))
        else:
            bundle.add(name, reply.body.decode(errors="replace"))


def _report(target: Target, path: Path, rows: list[dict[str, Any]]) -> None:
    if target.is_json:
        echo_json({"file": str(path), "members": rows})
        return
    from broker_ctl.cli.runtime.units import size_text

    print_table("", _COLUMNS, ([r["name"], size_text(r["size_bytes"]), r["note"]] for r in rows))
    echo(f"wrote {path}; look into it before you send it")
