"""``broker-ctl cluster-key add``, ``promote`` and ``remove``: the steps of replacing a key."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from broker_ctl.cli.cluster_key.files import print_ids, read_keys
from broker_ctl.cli.runtime.formats import output_option
from broker_ctl.cli.runtime.settings_options import settings_options
from broker_ctl.core.model.printable import escape

if TYPE_CHECKING:
    from broker_ctl.security.key_file import KeyFile

V = TypeVar("V", bound=Callable[..., None])

_COPY: Final = "copy the file to all brokers, which load it without a restart"

_ADD: Final = """\b
Examples:
  broker-ctl cluster-key add /etc/broker-ctl/cluster.key
  broker-ctl cluster-key add /etc/broker-ctl/cluster.key --dry-run
"""
_PROMOTE: Final = """\b
Examples:
  broker-ctl cluster-key promote /etc/broker-ctl/cluster.key 4f3a9c01
  broker-ctl cluster-key promote /etc/broker-ctl/cluster.key 4f3a9c01 --dry-run
"""
_REMOVE: Final = """\b
Examples:
  broker-ctl cluster-key remove /etc/broker-ctl/cluster.key 0b7d21e8 --config broker.conf --dry-run
  broker-ctl cluster-key remove /etc/broker-ctl/cluster.key derived --config broker.conf
  broker-ctl cluster-key remove /etc/broker-ctl/cluster.key 0b7d21e8 --force
"""


def _edit_options(verb: V) -> V:
    dry_run = click.option("--dry-run", is_flag=True, help="Only show what FILE would hold.")
    return dry_run(output_option()(verb))


@click.command(short_help="Add a key that only verifies.", epilog=_ADD)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@_edit_options
def add(file: Path, *, dry_run: bool, output: str) -> None:
    """Append a new random key to FILE; it verifies, and does not sign yet.

    The first step of replacing a key. Then copy FILE to every broker; they load it without a
    restart.

    Exit code: 0 if it was added, 1 if not, 2 for a wrong argument.
    """
    from broker_ctl.security.key_file import new_key_line

    changed = read_keys(file).add(new_key_line())
    next_step = f"{_COPY}; then: broker-ctl cluster-key promote {file} {changed.ids[-1]}"
    _finish(file, changed, next_step, is_dry_run=dry_run, output=output)


@click.command(short_help="Let another key sign.", epilog=_PROMOTE)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("key")
@_edit_options
def promote(file: Path, key: str, *, dry_run: bool, output: str) -> None:
    """Move KEY, by its id, to the first place of FILE: it signs once a broker has loaded FILE.

    The second step of replacing a key. All brokers must have read KEY before, or they refuse
    what it signs: broker_ctl_cluster_key of each of them shows it.

    Exit code: 0 if it was moved, 1 if not, 2 for a wrong argument.
    """
    changed = read_keys(file).promote(key)
    next_step = (
        f"{_COPY}; with znodeSignatures=require restart them one by one and run broker-ctl "
        "zookeeper sign, then remove the old key"
    )
    _finish(file, changed, next_step, is_dry_run=dry_run, output=output)


@click.command(short_help="Remove a key.", epilog=_REMOVE)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("key")
@settings_options("Configuration file (broker.conf) of a daemon, to look for nodes of this key.")
@click.option("--force", is_flag=True, help="Remove it though nodes may have its signature.")
@_edit_options
def remove(
    file: Path,
    key: str,
    *,
    configuration: Path | None,
    overrides: tuple[str, ...],
    force: bool,
    dry_run: bool,
    output: str,
) -> None:
    """Remove KEY, by its id, from FILE; not the first one, which signs.

    The last step of replacing a key. No broker may still sign with KEY: broker_ctl_cluster_key of
    each of them shows which one signs. Persistent nodes that only KEY verifies would be like
    unsigned ones: they are listed, and KEY stays until they are signed again (broker-ctl zookeeper
    sign), unless --force.

    Exit code: 0 if it was removed, 1 if not, 2 for a wrong argument.
    """
    from broker_ctl.cli.cluster_key.standing import standing_nodes

    keys = read_keys(file)
    changed = keys.remove(key)
    nodes = standing_nodes(keys, changed, configuration, overrides)
    if nodes is None and not force and not dry_run:
        raise click.UsageError(
            f"nodes in ZooKeeper may have the signature of {key}: name a daemon's configuration "
            "with --config to look for them, or use --force"
        )
    for path in nodes or ():
        click.echo(f"only {key} verifies {escape(path)}", err=True)
    if nodes and not force and not dry_run:
        raise click.ClickException(
            f"{len(nodes)} nodes have the signature of {key}: sign them again with broker-ctl "
            "zookeeper sign, or use --force, which makes them like unsigned ones"
        )
    _finish(file, changed, _COPY, is_dry_run=dry_run, output=output, nodes=nodes)


def _finish(
    file: Path,
    changed: "KeyFile",
    next_step: str,
    *,
    is_dry_run: bool,
    output: str,
    nodes: Sequence[str] | None = None,
) -> None:
    from broker_ctl.cli.runtime.output import echo, echo_json
    from broker_ctl.cli.runtime.output_files import replace_file

    if not is_dry_run:
        replace_file(file, str(changed).encode())
    if output == "json":
        found = {} if nodes is None else {"nodes": list(nodes)}
        echo_json({"file": str(file), "keys": changed.ids, "dry_run": is_dry_run, **found})
        return
    print_ids(changed.ids)
    echo(f"{file} is unchanged" if is_dry_run else next_step)
