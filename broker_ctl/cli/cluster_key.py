"""``broker-ctl cluster-key``: the keys with which brokers sign their requests to each other."""

from pathlib import Path
from typing import Final

import click

from broker_ctl.cli.runtime.verb_help import VerbGroup

# \b keeps click from joining the lines.
_EXAMPLES: Final = """\b
Examples:
  broker-ctl cluster-key create /etc/broker-ctl/cluster.key
"""


@click.group(cls=VerbGroup, name="cluster-key", epilog=_EXAMPLES)
def command() -> None:
    """Keys that all brokers of a cluster share, and sign their requests to each other with."""


@command.command(epilog=_EXAMPLES)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def create(file: Path, output: str) -> None:
    """Write a new random key to FILE, for clusterKeyFile; only its owner can read it.

    FILE must not exist: brokers with different keys refuse each other's commands. To replace a
    key, create another file and append its line to the file of every broker first.

    Exit code: 0 if it was written, 1 if not, 2 for a wrong argument.
    """
    from broker_ctl.cli.runtime.output import echo, echo_json
    from broker_ctl.cli.runtime.output_files import create_file
    from broker_ctl.security.cluster_key import new_key_line

    line = new_key_line()
    create_file(file, f"{line}\n".encode())
    if output == "json":
        echo_json({"file": str(file)})
    else:
        echo(f"wrote a key to {file}; copy it to all brokers, and set clusterKeyFile")
