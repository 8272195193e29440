"""``broker-ctl man-pages``: the manual pages of all commands."""

from pathlib import Path
from typing import Final

import click

from broker_ctl.cli.install.package_files import FILE_MODE, write_file
from broker_ctl.cli.runtime.formats import output_option
from broker_ctl.cli.runtime.output import echo, echo_json
from broker_ctl.cli.runtime.verb_help import VerbGroup

_EXAMPLES: Final = """\b
Examples:
  broker-ctl man-pages export ~/.local/share/man/man1
  broker-ctl man-pages export /usr/local/share/man/man1 --dry-run
"""


@click.group(cls=VerbGroup, short_help="Write the manual pages.", epilog=_EXAMPLES)
def command() -> None:
    """Write the manual pages, which say what --help says."""


@command.command(epilog=_EXAMPLES)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only show what would be written.")
@output_option()
@click.pass_context
def export(ctx: click.Context, *, directory: Path, dry_run: bool, output: str) -> None:
    """Write one page for each command to DIRECTORY, replacing those of an earlier release.

    Afterwards `man broker-ctl` and `man broker-ctl-bundles-move` find them if the directory above
    is in MANPATH.
    """
    from broker_ctl.cli.install.roff import every_command, manual_page, page_name

    root = click.Context(ctx.find_root().command, info_name="broker-ctl")
    pages = {
        directory / f"{page_name(each.command_path)}.1": manual_page(each)
        for each in every_command(root)
    }
    if not dry_run:
        for path, text in pages.items():
            write_file(path, text, FILE_MODE)
    if output == "json":
        result = "dry_run" if dry_run else "written"
        echo_json({"result": result, "files": [str(path) for path in pages]})
    else:
        echo(f"{'would write' if dry_run else 'wrote'} {len(pages)} pages to {directory}")
