"""``broker-ctl cluster-key create`` and ``show``."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from broker_ctl.cli.runtime.formats import output_option

if TYPE_CHECKING:
    from broker_ctl.security.key_file import KeyFile

_CREATE: Final = """\b
Examples:
  broker-ctl cluster-key create /etc/broker-ctl/cluster.key
  broker-ctl cluster-key create /etc/broker-ctl/cluster.key --after-derived
"""
_SHOW: Final = """\b
Examples:
  broker-ctl cluster-key show /etc/broker-ctl/cluster.key
  broker-ctl cluster-key show /etc/broker-ctl/cluster.key --output json
"""


@click.command(short_help="Write a new key to a new file.", epilog=_CREATE)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--after-derived",
    is_flag=True,
    help="Go on signing with the keys that are derived from tokens; the new key only verifies.",
)
@output_option()
def create(file: Path, *, after_derived: bool, output: str) -> None:
    """Write a new random key to FILE, for clusterKeyFile; only its owner can read it.

    FILE must not exist: brokers with different keys refuse each other's commands. For a cluster
    that runs with keys derived from tokens, use --after-derived, and promote the key when every
    broker has the file.

    Exit code: 0 if it was written, 1 if not, 2 for a wrong argument.
    """
    from broker_ctl.cli.runtime.output import echo, echo_json
    from broker_ctl.cli.runtime.output_files import create_file
    from broker_ctl.security.key_file import KeyFile, new_key_line

    line = new_key_line()
    made = KeyFile.parse(line)
    if after_derived:
        made = KeyFile.parse("").add_derived().add(line)
    create_file(file, str(made).encode())
    if output == "json":
        echo_json({"file": str(file), "keys": made.ids})
    else:
        echo(f"wrote key {made.ids[-1]} to {file}; copy it to all brokers, and set clusterKeyFile")


@click.command(short_help="Show the ids of a file's keys.", epilog=_SHOW)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@output_option()
def show(file: Path, output: str) -> None:
    """Show the ids of the keys in FILE, to compare the files of brokers; never the keys.

    broker_ctl_cluster_key has the ids that each running broker has read.

    Exit code: 0 if the file is valid, 1 if not, 2 for a wrong argument.
    """
    from broker_ctl.cli.runtime.output import echo_json

    ids = read_keys(file).ids
    if output == "json":
        echo_json({"file": str(file), "keys": ids})
        return
    print_ids(ids)


def print_ids(ids: list[str]) -> None:
    """A line for each key."""
    from broker_ctl.cli.runtime.output import echo

    for number, key_id in enumerate(ids):
        echo(f"{key_id}  {'verifies' if number else 'signs and verifies'}")


def read_keys(file: Path) -> "KeyFile":
    """The keys of a file.

    Raises:
        ClickException: it cannot be read, or others can write it.
        SettingsError: it holds no keys.
    """
    from broker_ctl.security.guarded_files import read_guarded
    from broker_ctl.security.key_file import KeyFile

    try:
        content = read_guarded(file)
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror or error}") from error
    found = KeyFile.parse(content.decode(errors="replace"))
    found.require_keys()
    return found
