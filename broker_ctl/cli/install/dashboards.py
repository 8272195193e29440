"""``broker-ctl dashboards``: alerts of Prometheus and the dashboard of Grafana."""

import re
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
  broker-ctl dashboards export monitoring --runbooks https://docs.example.com/runbooks.html
"""
_NAMES: Final = ("prometheus/alerts.yml", "prometheus/prometheus.yml", "grafana/broker-ctl.json")

_RUNBOOKS: Final = 'runbook_url: "docs/how-to/runbooks.md#'
# Nothing that would end the text in the file or in a page.
_URL: Final = re.compile(r"https?://[A-Za-z0-9.:/_~%\[\]-]{1,300}")


def _url(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if value is not None and _URL.fullmatch(value) is None:
        raise click.BadParameter(f"{value[:80]!r} is not an address without query and fragment")
    return value


@click.group(
    cls=VerbGroup, short_help="Write alerts and dashboard of this release.", epilog=_EXAMPLES
)
def command() -> None:
    """Write the alerts of Prometheus and the dashboard of Grafana that fit this release."""


@command.command(epilog=_EXAMPLES)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace existing files.")
@click.option(
    "--runbooks",
    metavar="URL",
    callback=_url,
    help="Where your copy of the page of runbooks is, for runbook_url of each alert.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be written.")
@output_option()
def export(
    *, directory: Path, force: bool, runbooks: str | None, dry_run: bool, output: str
) -> None:
    """Write alerts.yml, an example prometheus.yml, and broker-ctl.json for Grafana.

    Their metrics are those of the daemon that comes with this command: write them again after
    an upgrade.
    """
    from broker_ctl.cli.runtime.output import echo, echo_json

    targets = {directory / Path(name).name: read_text(name) for name in _NAMES}
    if runbooks is not None:
        alerts = directory / "alerts.yml"
        targets[alerts] = targets[alerts].replace(_RUNBOOKS, f'runbook_url: "{runbooks}#')
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
