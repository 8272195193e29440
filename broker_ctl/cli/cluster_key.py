"""``broker-ctl cluster-key``: the keys with which brokers sign what they say to each other."""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from broker_ctl.cli.runtime.output import output_option
from broker_ctl.cli.runtime.target import settings_options
from broker_ctl.cli.runtime.verbs import VerbGroup
from broker_ctl.cli.runtime.zookeeper_target import require_private, signatures_by, unverified_store
from broker_ctl.core.model.safe_text import escape

if TYPE_CHECKING:
    from broker_ctl.security.cluster_key import KeyFile
    from broker_ctl.settings.root import Settings


# ``broker-ctl cluster-key create`` and ``show``.


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
    from broker_ctl.cli.runtime.output import create_file, echo, echo_json
    from broker_ctl.security.cluster_key import KeyFile, new_key_line

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
    from broker_ctl.security.cluster_key import KeyFile
    from broker_ctl.security.guarded_files import read_guarded

    try:
        content = read_guarded(file)
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror or error}") from error
    found = KeyFile.parse(content.decode(errors="replace"))
    found.require_keys()
    return found


# ``broker-ctl cluster-key add``, ``promote`` and ``remove``: the steps of replacing a key.


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
    from broker_ctl.security.cluster_key import new_key_line

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
    from broker_ctl.cli.runtime.output import echo, echo_json, replace_file

    if not is_dry_run:
        replace_file(file, str(changed).encode())
    if output == "json":
        found = {} if nodes is None else {"nodes": list(nodes)}
        echo_json({"file": str(file), "keys": changed.ids, "dry_run": is_dry_run, **found})
        return
    print_ids(changed.ids)
    echo(f"{file} is unchanged" if is_dry_run else next_step)


# ``broker-ctl cluster-key``: the keys with which brokers sign what they say to each other.


_EXAMPLES: Final = """\b
Examples:
  broker-ctl cluster-key create /etc/broker-ctl/cluster.key
  broker-ctl cluster-key add /etc/broker-ctl/cluster.key
  broker-ctl cluster-key show /etc/broker-ctl/cluster.key
"""


@click.group(cls=VerbGroup, epilog=_EXAMPLES)
def command() -> None:
    """Create and replace the keys that all brokers share, and sign with.

    The first key of a file signs, all of them verify. To replace a key while the cluster serves:
    add a new one, promote it, remove the old one. After each step, copy the file to every
    broker, and wait until each has loaded it, which takes no restart.
    """


for _verb in (create, add, promote, remove, show):
    command.add_command(_verb)


# Nodes whose signature only a key that is to be removed verifies.


def standing_nodes(
    before: "KeyFile", after: "KeyFile", configuration: Path | None, overrides: Sequence[str]
) -> list[str] | None:
    """The paths of these nodes; None: neither a file nor the environment names the servers.

    Raises:
        SettingsError, StartError: settings that cannot be used, or nothing to derive keys from.
        StoreError: ZooKeeper could not be read.
    """
    from broker_ctl.settings.sources import load

    settings = load(configuration, os.environ, overrides)
    if settings.metadata.store_url is None:
        return None
    require_private(settings)
    return asyncio.run(_find(settings, before, after))


async def _find(settings: "Settings", before: "KeyFile", after: "KeyFile") -> list[str]:
    from broker_ctl.daemon.wiring.security import derived_keys
    from broker_ctl.store.resigning import find_signed_by_removed

    def derive() -> tuple[bytes, ...]:
        return derived_keys(settings)

    verifiers = [signatures_by(keys.keys(derive), settings) for keys in (before, after)]
    async with unverified_store(settings) as store:
        return [found.node.path for found in await find_signed_by_removed(store, *verifiers)]
