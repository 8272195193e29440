"""``broker-ctl dashboards``: alerts of Prometheus and the dashboard of Grafana."""

from pathlib import Path
from typing import Final

import click

from broker_ctl.cli.install.package_files import FILE_MODE, read_text, write_file
from broker_ctl.cli.runtime.formats import output_option
from broker_ctl.cli.runtime.verb_help import VerbGroup

_EXAMPLES: Final = """\b
Examples:
  broker-ctl dashboards export monitoring
  broker-ctl dashboards export /etc/prometheus --force
"""
_NAMES: Final = ("prometheus/alerts.yml", "prometheus/prometheus.yml", "grafana/broker-ctl.json")


@click.group(
    cls=VerbGroup, short_help="Write alerts and dashboard of this release.", epilog=_EXAMPLES
)
def command() -> None:
    """Write the alerts of Prometheus and the dashboard of Grafana that fit this release."""


@command.command(epilog=_EXAMPLES)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace existing files.")
@click.option("--dry-run", is_flag=True, help="Only show what would be written.")
@output_option()
def export(*, directory: Path, force: bool, dry_run: bool, output: str) -> None:
    """Write alerts.yml, an example prometheus.yml, and broker-ctl.json for Grafana.

    Their metrics are those of the daemon that comes with this command: write them again after
    an upgrade.
    """
    from broker_ctl.cli.runtime.output import echo, echo_json

    targets = {directory / Path(name).name: read_text(name) for name in _NAMES}
    for path in targets:
        if path.exists() and not force:
            raise click.ClickException(f"{path} exists; --force replaces it")
    if not dry_run:
        for path, text in targets.items():
            write_file(path, text, FILE_MODE)
    if output == "json":
        result = "dry_run" if dry_run else "written"
        echo_json({"result": result, "files": [str(path) for path in targets]})
        return
    for path in targets:
        echo(f"{'would write' if dry_run else 'wrote'} {path}")
