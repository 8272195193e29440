"""``broker-ctl zookeeper secure``: close nodes that are open to everybody."""

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from broker_ctl.cli.runtime.confirmation import change_options
from broker_ctl.cli.runtime.formats import output_option
from broker_ctl.cli.runtime.output import echo, echo_json
from broker_ctl.cli.runtime.settings_options import settings_options
from broker_ctl.cli.runtime.zookeeper_target import require_private

if TYPE_CHECKING:
    from broker_ctl.settings.root import Settings
    from broker_ctl.store.zookeeper.access.control import AccessControl
    from broker_ctl.store.zookeeper.store import ZooKeeperStore

_CONNECT_S: Final = 10.0
_PROGRESS_NODES: Final = 1000
_SHOWN: Final = 5
_EXAMPLES: Final = """\b
Examples:
  broker-ctl zookeeper secure --config broker.conf --dry-run
  broker-ctl zookeeper secure --config broker.conf --yes
  broker-ctl zookeeper secure --config broker.conf --all --yes --output json
"""


@dataclass(slots=True)
class Secured:
    """What was done in one store.

    Attributes:
        nodes: looked at.
        closed: got a new list, or would get one.
        still_open: open after that.
        not_ours: belong to another identity, which has to change them.
        examples: paths of some that were closed.
    """

    store: str
    nodes: int = 0
    closed: int = 0
    still_open: int = 0
    not_ours: int = 0
    examples: list[str] = field(default_factory=list)


@click.command("secure", short_help="Close nodes that are open to everybody.", epilog=_EXAMPLES)
@settings_options("Configuration file (broker.conf) of a daemon, with its ZooKeeper identity.")
@click.option(
    "--all",
    "has_all",
    is_flag=True,
    help="Set the list of closed nodes too, as after a change of zookeeperAclReaders.",
)
@change_options
@output_option()
def command(
    *,
    configuration: Path | None,
    overrides: tuple[str, ...],
    has_all: bool,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Give all nodes of the cluster to the daemons' ZooKeeper identity.

    For nodes that were created while daemons had no identity. Daemons keep running; all of them
    must have the identity by then, or they lose access. With dataPlane=pulsar only /broker-ctl is
    closed: the brokers of Pulsar keep access to their nodes. Nodes that are closed already are left
    alone, so the command can be interrupted and repeated. At the end all nodes are read again.

    Exit code 1 if nodes are open after that, or belong to another identity.
    """
    from broker_ctl.settings.conditions import HAS_IDENTITY
    from broker_ctl.settings.sources import load

    settings = load(configuration, os.environ, overrides)
    if settings.metadata.store_url is None:
        raise click.ClickException("metadataStoreUrl is not set; name a file with --config")
    require_private(settings)
    if not HAS_IDENTITY.holds(settings):
        raise click.ClickException(
            "no ZooKeeper identity: set zookeeperSaslDigestFile, zookeeperTlsCertFile or "
            "zookeeperAuthDigestFile"
        )
    if not (dry_run or yes):
        echo(f"All nodes in {settings.text('metadataStoreUrl')} will be closed to other identities")
        click.confirm("Do all daemons have this identity?", abort=True)
    found = asyncio.run(_run(settings, is_dry_run=dry_run, has_all=has_all))
    _show(found, is_dry_run=dry_run, output=output)
    sys.exit(any(one.still_open or one.not_ours for one in found) and not dry_run)


async def _run(settings: "Settings", *, is_dry_run: bool, has_all: bool) -> list[Secured]:
    from broker_ctl.daemon.wiring.stores import guarded_tree
    from broker_ctl.errors import ConnectionLoss

    found: list[Secured] = []
    for store in _stores(settings):
        await store.start()
        try:
            async with asyncio.timeout(_CONNECT_S):
                await store.wait_connected()
        except TimeoutError:
            await store.close()
            raise ConnectionLoss(
                f"no ZooKeeper server of {store.name} answered within {_CONNECT_S:g} s"
            ) from None
        try:
            control = store.access_control(guarded_tree(settings))
            work = _secure(store.name, control, is_dry_run=is_dry_run, has_all=has_all)
            found.append(await work)
        finally:
            await store.close()
    return found


def _stores(settings: "Settings") -> "Sequence[ZooKeeperStore]":
    """The stores, with restricted nodes whatever zookeeperSetAcl says."""
    import random

    from broker_ctl.daemon.wiring.stores import StoreCredentials, open_store
    from broker_ctl.instruments.declared import StoreInstruments

    metadata, credentials = settings.metadata, StoreCredentials.now(settings)
    urls = {"metadata-store": metadata.store_url}
    if metadata.configuration_url != metadata.store_url:
        urls["configuration-metadata-store"] = metadata.configuration_url
    return [
        open_store(
            settings,
            url,
            name,
            random.SystemRandom(),
            instruments=StoreInstruments(),
            credentials=credentials,
            always_restricted=True,
        )
        for name, url in urls.items()
        if url is not None
    ]


async def _secure(
    name: str, control: "AccessControl", *, is_dry_run: bool, has_all: bool
) -> Secured:
    from broker_ctl.errors import NoAuth

    done = Secured(name)
    async for node in control.walk():
        done.nodes += 1
        _report(done.nodes, f"{name}: {done.nodes} nodes seen, {done.closed} closed")
        if node.acl is None or not (has_all or control.is_open(node)):
            continue
        if not is_dry_run:
            try:
                await control.close_node(node.path)
            except NoAuth:
                continue  # counted below
        done.closed += 1
        done.examples += [node.path][: _SHOWN - len(done.examples)]

    def checked(nodes: int) -> None:
        _report(nodes, f"{name}: {nodes} of about {done.nodes} nodes checked")

    left = await control.count(report=checked)
    done.still_open, done.not_ours = left.open, left.foreign
    return done


def _report(nodes: int, text: str) -> None:
    """Show progress now and then; stdout is for the result."""
    if nodes % _PROGRESS_NODES == 0:
        echo(text, err=True)


def _show(found: Sequence[Secured], *, is_dry_run: bool, output: str) -> None:
    if output == "json":
        echo_json({"dry_run": is_dry_run, "stores": [asdict(one) for one in found]})
        return
    verb = "would be closed" if is_dry_run else "closed"
    for one in found:
        such = f", such as {', '.join(one.examples)}" if one.examples else ""
        echo(f"{one.store}: {one.closed} of {one.nodes} nodes {verb}{such}")
        if one.still_open and not is_dry_run:
            echo(f"{one.store}: {one.still_open} nodes are open: run the command again", err=True)
        if one.not_ours:
            echo(f"{one.store}: {one.not_ours} nodes belong to another identity", err=True)
