"""``broker-ctl zookeeper``: real ZooKeeper servers on this machine, in the foreground."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from broker_ctl.cli.runtime.output import echo, echo_json, output_option, print_table, replace_file
from broker_ctl.cli.runtime.target import config_option, settings_options
from broker_ctl.cli.runtime.verbs import VerbGroup, change_options, watch_option
from broker_ctl.cli.runtime.zookeeper_target import (
    require_private,
    require_servers,
    signatures_by,
    unverified_store,
)
from broker_ctl.core.model.safe_text import escape

if TYPE_CHECKING:
    import ssl

    from broker_ctl.lab.embedded.ensemble import Ensemble
    from broker_ctl.settings.root import Settings
    from broker_ctl.store.resigning import Unsigned
    from broker_ctl.store.signed import ZnodeSignatures
    from broker_ctl.store.zookeeper.access_control import AccessControl
    from broker_ctl.store.zookeeper.store import ZooKeeperStore


# ``broker-ctl zookeeper raise-epoch``: raise the epoch of a restored ZooKeeper.
#
# Transaction ids begin with the epoch of the leader that gave them out, and tokens are transaction
# ids. A server takes the epoch from two files of its data directory, which it reads at its start.


_DATA: Final = "version-2"
# In this order: a server refuses to start if acceptedEpoch is below currentEpoch.
_FILES: Final = ("acceptedEpoch", "currentEpoch")
# Room for the epochs of leaders that were elected after a daemon last logged a zxid.
_MARGIN: Final = 100
_EPOCH_BITS: Final = 32
_MAX_EPOCH: Final = (1 << 31) - 1
_NUMBERED: Final = re.compile(r"(?:log|snapshot)\.([0-9a-f]{1,16})(?:\.\w+)?")
_PROCESSES: Final = Path("/proc")
_RAISE_EPOCH_EXAMPLES: Final = """\b
Examples:
  broker-ctl zookeeper raise-epoch /var/lib/zookeeper --seen 0x1a00000005 --dry-run
  broker-ctl zookeeper raise-epoch /var/lib/zookeeper --seen 0x1a00000005
  broker-ctl zookeeper raise-epoch /var/lib/zookeeper --epoch 126 --output json
"""


@dataclass(frozen=True, slots=True)
class Epochs:
    """Epochs in a data directory.

    Attributes:
        written: in the two files, by name.
        newest: of the newest transaction.
    """

    written: dict[str, int]
    newest: int


def _zxid(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"0x[0-9a-f]{1,16}", text.lower()):
        raise click.BadParameter(f"{text!r} is not a transaction id such as 0x1a00000005")
    return int(text, 16)


@click.command(
    "raise-epoch", short_help="Raise the epoch of a restored copy.", epilog=_RAISE_EPOCH_EXAMPLES
)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--seen",
    metavar="ZXID",
    callback=_zxid,
    help=f"Highest transaction id seen anywhere; the new epoch is its epoch plus {_MARGIN}.",
)
@click.option("--epoch", type=click.IntRange(1, _MAX_EPOCH), help="New epoch.")
@click.option("--dry-run", is_flag=True, help="Only check, and show what would be written.")
@output_option()
def raise_epoch(
    directory: Path, seen: int | None, epoch: int | None, *, dry_run: bool, output: str
) -> None:
    """Raise the epoch in DIRECTORY, the dataDir of a ZooKeeper server that is stopped.

    For servers that are restored from a copy. Run it on each server with the same number, after
    the copy is in place and before any server is started: all transaction ids, and so the fencing
    tokens of bundles, are then greater than those issued after the copy was made.
    """
    if (seen is None) == (epoch is None):
        raise click.UsageError("either --seen or --epoch is required")
    if epoch is None:
        assert seen is not None
        epoch = (seen >> _EPOCH_BITS) + _MARGIN
    data = _data_of(directory)
    _require_stopped(data)
    found = _read(data)
    highest = max(found.newest, *found.written.values())
    if not highest < epoch <= _MAX_EPOCH:
        raise click.ClickException(
            f"{data}: epoch {epoch} must be above {highest}, the epoch of the copy, and at most"
            f" {_MAX_EPOCH}"
        )
    if not dry_run:
        for name in _FILES:
            replace_file(data / name, f"{epoch}\n".encode())
    _show(data, found, epoch, is_dry_run=dry_run, output=output)


def _show(data: Path, found: Epochs, epoch: int, *, is_dry_run: bool, output: str) -> None:
    if output == "json":
        echo_json(
            {"directory": str(data), "was": found.written, "epoch": epoch, "dry_run": is_dry_run}
        )
        return
    verb = "would be raised" if is_dry_run else "is raised"
    for name, was in found.written.items():
        click.echo(f"{data / name} {verb} from {was} to {epoch}")
    if not is_dry_run:
        click.echo(f"next: the same on the other servers, with --epoch {epoch}; then start them")


def _data_of(directory: Path) -> Path:
    data = directory if directory.name == _DATA else directory / _DATA
    if not data.is_dir():
        raise click.ClickException(
            f"{directory} holds no {_DATA}: the dataDir of a ZooKeeper server is expected"
        )
    return data.resolve()


def _read(data: Path) -> Epochs:
    written = {name: _number(data / name) for name in _FILES}
    numbered = [_NUMBERED.fullmatch(entry.name) for entry in data.iterdir()]
    zxids = [int(match[1], 16) for match in numbered if match is not None]
    if not zxids:
        raise click.ClickException(
            f"{data} holds neither a snapshot nor a log: nothing is restored"
        )
    return Epochs(written, max(zxids) >> _EPOCH_BITS)


def _number(file: Path) -> int:
    try:
        text = file.read_text(encoding="ascii").strip()
        if not re.fullmatch(r"[0-9]{1,19}", text):
            raise click.ClickException(f"{file}: {text!r:.40} is not an epoch")
    except FileNotFoundError:
        raise click.ClickException(
            f"{file} is missing: a server without an ensemble has no epoch that could be raised"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file}: {error}") from error
    return int(text)


# A running server does not read these files again, and would overwrite them with its own epoch.


def _require_stopped(data: Path) -> None:
    for process in sorted(_PROCESSES.glob("[0-9]*")):
        if any(_is_below(one, data) for one in _used_by(process)):
            raise click.ClickException(
                f"process {process.name} serves from {data}: stop the ZooKeeper server first"
            )


def _used_by(process: Path) -> Iterator[Path]:
    """The open files of a process, and its dataDir if it is a ZooKeeper server; if permitted."""
    try:
        for descriptor in (process / "fd").iterdir():
            yield descriptor.readlink()
    except OSError:
        pass
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
        if not any(b"org.apache.zookeeper" in word for word in words):
            return
        base = (process / "cwd").readlink()
        for word in words:
            if word.endswith(b".cfg"):
                text = (base / os.fsdecode(word)).read_text(encoding="utf-8", errors="replace")
                for line in text.splitlines():
                    key, _, value = line.partition("=")
                    if key.strip() == "dataDir":
                        yield (base / value.strip() / _DATA).resolve()
    except OSError:
        pass


def _is_below(path: Path, data: Path) -> bool:
    return path == data or data in path.parents


# ``broker-ctl zookeeper secure``: close nodes that are open to everybody.


_CONNECT_S: Final = 10.0
_PROGRESS_NODES: Final = 1000
_SHOWN: Final = 5
_SECURE_EXAMPLES: Final = """\b
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


@click.command(
    "secure", short_help="Close nodes that are open to everybody.", epilog=_SECURE_EXAMPLES
)
@settings_options("Configuration file (broker.conf) of a daemon, with its ZooKeeper identity.")
@click.option(
    "--all",
    "has_all",
    is_flag=True,
    help="Set the list of closed nodes too, as after a change of zookeeperAclReaders.",
)
@change_options
@output_option()
def secure(
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
    found = asyncio.run(_run_of_secure(settings, is_dry_run=dry_run, has_all=has_all))
    _show_of_secure(found, is_dry_run=dry_run, output=output)
    sys.exit(any(one.still_open or one.not_ours for one in found) and not dry_run)


async def _run_of_secure(settings: "Settings", *, is_dry_run: bool, has_all: bool) -> list[Secured]:
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


def _show_of_secure(found: Sequence[Secured], *, is_dry_run: bool, output: str) -> None:
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


# ``broker-ctl zookeeper sign``: sign nodes that were written without a valid signature.


_SHOWN_CHARACTERS: Final = 160
_SIGN_EXAMPLES: Final = """\b
Examples:
  broker-ctl zookeeper sign --config broker.conf --dry-run
  broker-ctl zookeeper sign --config broker.conf
  broker-ctl zookeeper sign --config broker.conf --yes --output json
"""


@click.command("sign", short_help="Sign nodes without a valid signature.", epilog=_SIGN_EXAMPLES)
@settings_options("Configuration file (broker.conf) of a daemon, with the cluster's keys.")
@change_options
@output_option()
def sign(
    *,
    configuration: Path | None,
    overrides: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Sign pauses, drains, plans, moves, instructions and deletions in ZooKeeper.

    For nodes from before signatures, of an old cluster key, or from a copy of ZooKeeper. A signed
    node counts as said by a broker, so look at each payload first: an attacker may have written
    it. Delete what is not yours. Nodes that end with their session are signed by their brokers, at
    a restart.

    Exit code 1 if a node could not be signed: it has changed, or holds no JSON object.
    """
    from broker_ctl.settings.sources import load

    settings = load(configuration, os.environ, overrides)
    require_servers(settings)
    require_private(settings)
    signatures = _signatures(settings)
    found, signed = asyncio.run(_run_of_sign(settings, signatures, is_dry_run=dry_run, yes=yes))
    if output == "json":
        nodes = [{"path": one.node.path, **_row(one)} for one in found]
        echo_json({"dry_run": dry_run, "nodes": nodes, "signed": signed})
    else:
        verb = "would be signed" if dry_run else "were signed"
        echo(f"{len(found) if dry_run else signed} of {len(found)} nodes {verb}")
    sys.exit(not dry_run and signed < len(found))


def _signatures(settings: "Settings") -> "ZnodeSignatures":
    from broker_ctl.daemon.wiring.security import read_cluster_keys

    keys = read_cluster_keys(settings)
    if keys is None:
        raise click.ClickException("the cluster has no keys: set clusterKeyFile")
    return signatures_by(keys, settings)


async def _run_of_sign(
    settings: "Settings", signatures: "ZnodeSignatures", *, is_dry_run: bool, yes: bool
) -> "tuple[list[Unsigned], int]":
    from broker_ctl.store.resigning import find_unsigned, sign_again

    async with unverified_store(settings) as store:
        found = await find_unsigned(store, signatures)
        for one in found:
            row = _row(one)
            echo(f"{escape(one.node.path)}: {row['problem']}: {row['payload']}", err=True)
        if is_dry_run or not found:
            return found, 0
        if not yes:
            # The connection is kept alive meanwhile.
            text = f"Sign these {len(found)} nodes?"
            await asyncio.to_thread(click.confirm, text, abort=True, err=True)
        return found, sum([await sign_again(store, signatures, one) for one in found])


def _row(one: "Unsigned") -> dict[str, str]:
    payload = one.node.data[:_SHOWN_CHARACTERS].decode(errors="replace")
    return {"family": one.family, "problem": one.problem, "payload": escape(payload)}


# ``broker-ctl zookeeper status``: the role of each server, and whether there is a leader.


_COLUMNS: Final = ("server", "state", "version", "zxid", "connections", "note")
_STATUS_EXAMPLES: Final = """\b
Examples:
  broker-ctl zookeeper status zk1:2181,zk2:2181,zk3:2181
  broker-ctl zookeeper status --config broker.conf
  broker-ctl zookeeper status zk1:2181 --output json
"""


@click.command(
    "status",
    short_help="Show the role of each server, and whether there is a leader.",
    epilog=_STATUS_EXAMPLES,
)
@click.argument("hosts", required=False, metavar="HOST:PORT,HOST:PORT")
@config_option("Configuration file (broker.conf) with metadataStoreUrl and TLS settings.")
@click.option(
    "--timeout",
    type=click.FloatRange(0.1, 60.0),
    default=3.0,
    show_default=True,
    help="Timeout for each server, in seconds.",
)
@watch_option
@output_option()
def status(hosts: str | None, configuration: Path | None, timeout: float, output: str) -> None:
    """Query the role of each ZooKeeper server with the four-letter command srvr.

    A server that runs without a quorum is shown as such. Exit code 1 if there is no leader.
    """
    from broker_ctl.store.zookeeper.server_status import ask_all, verdict

    servers, tls = _servers(hosts, configuration)
    standings = asyncio.run(ask_all(servers, limit_s=timeout, tls=tls))
    is_led, sentence = verdict(standings)
    rows = [asdict(one) for one in standings]
    if output == "json":
        echo_json({"has_leader": is_led, "verdict": sentence, "servers": rows})
    else:
        print_table("", _COLUMNS, ([row[name] for name in _COLUMNS] for row in rows))
        echo(sentence)
    sys.exit(not is_led)


def _servers(
    hosts: str | None, configuration: Path | None
) -> "tuple[list[tuple[str, int]], ssl.SSLContext | None]":
    from broker_ctl.daemon.wiring.stores import tls_context
    from broker_ctl.settings.sources import load
    from broker_ctl.store.zookeeper.store import parse_hosts

    if (hosts is None) == (configuration is None):
        raise click.UsageError("either servers or --config is required")
    if hosts is not None:
        return parse_hosts(hosts), None
    settings = load(configuration, os.environ, ())
    if settings.metadata.store_url is None:
        raise click.ClickException(f"{configuration}: metadataStoreUrl is not set")
    servers = ",".join(str(server) for server in settings.metadata.store_url.servers)
    return parse_hosts(servers), tls_context(settings)


# ``broker-ctl zookeeper``: real ZooKeeper servers on this machine, in the foreground.
#
# Its subcommands work on other servers.


# \b keeps click from filling the lines.
_EXAMPLES: Final = """\b
Examples:
  broker-ctl zookeeper
  broker-ctl zookeeper --nodes 3 --port 2181 --dir ./zk
  broker-ctl zookeeper --heap 1g
  broker-ctl zookeeper status zk1:2181,zk2:2181,zk3:2181
  broker-ctl zookeeper raise-epoch /var/lib/zookeeper --seen 0x1a00000005 --dry-run
  broker-ctl zookeeper secure --config broker.conf --dry-run
  broker-ctl zookeeper sign --config broker.conf --dry-run
"""


def _heap_mb(text: str) -> int:
    found = re.fullmatch(r"([1-9]\d{0,5})([mg])", text.lower())
    if found is None:
        raise click.BadParameter(f"{text!r} is not a size such as 256m or 1g")
    return int(found[1]) * (1024 if found[2] == "g" else 1)


@click.group(
    cls=VerbGroup,
    epilog=_EXAMPLES,
    invoke_without_command=True,
)
@click.option(
    "--nodes",
    type=click.Choice(["1", "3"]),
    default="1",
    show_default=True,
    help="Number of servers.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for data, configuration and logs.  [default: zookeeper-NODES in"
    " $XDG_STATE_HOME/broker-ctl or ~/.local/state/broker-ctl]",
)
@click.option(
    "--port",
    type=click.IntRange(1024, 65_533),
    default=2181,
    show_default=True,
    help="Client port of the first server; further servers take the ports that follow.",
)
@click.option(
    "--heap",
    type=_heap_mb,
    metavar="SIZE",
    default="256m",
    show_default=True,
    help="Java heap of each server.",
)
@click.pass_context
def command(
    context: click.Context, nodes: str, directory: Path | None, port: int, heap: int
) -> None:
    """Run one ZooKeeper server, or three that elect a leader, until Ctrl-C; or a subcommand.

    For tests, not for production: all servers share this machine, listen on 127.0.0.1 only, and do
    not wait for the disk. The data is kept and used again by the next run with the same directory.
    With three servers, one that dies is restarted after five seconds while the others keep serving.

    The first run writes a user and its password to broker.secret in the directory (mode 0600). A
    daemon with zookeeperSaslDigestFile=DIR/broker.secret is that user, and its nodes are closed to
    all others.

    The servers come from the PySpark wheel: pip install 'broker-ctl[embedded]'.
    """
    if context.invoked_subcommand is not None:
        return
    from broker_ctl.lab.embedded.ensemble import Ensemble
    from broker_ctl.lab.embedded.server import USER_FILE, sasl_user

    home = directory or _default_directory(nodes)
    extras = sasl_user(home)
    ensemble = Ensemble.of(home, int(nodes), first_port=port, heap_mb=heap, extras=extras)
    click.echo(f"starting {nodes} ZooKeeper server(s) in {home}")
    click.echo(f"identity of daemons: zookeeperSaslDigestFile={home / USER_FILE}")
    asyncio.run(_run(ensemble))


command.add_command(status)
command.add_command(raise_epoch)
command.add_command(secure)
command.add_command(sign)


def _default_directory(nodes: str) -> Path:
    state = os.environ.get("XDG_STATE_HOME")
    return Path(state or Path.home() / ".local" / "state", "broker-ctl", f"zookeeper-{nodes}")


async def _run(ensemble: "Ensemble") -> None:
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(_serve(ensemble), name="serve ZooKeeper")
        # A cancelled child ends its group quietly: after stopping the servers we leave with 0. A
        # second signal cuts the stopping short; the servers then die with this process.
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, serving.cancel)
    click.echo("stopped")


async def _serve(ensemble: "Ensemble") -> None:
    from broker_ctl.lab.embedded.server import TICK_MS

    async with ensemble:
        for server in ensemble.servers:
            role = await server.role()
            click.echo(
                f"  server {server.id}  127.0.0.1:{server.client_port}  pid {server.pid}"
                f"  {role or 'electing'}"
            )
        click.echo("settings of daemons, with a chroot of your choice:")
        click.echo(f"  metadataStoreUrl=zk:{ensemble.connect_string}/CHROOT")
        click.echo(f"  zookeeperTickTimeMillis={TICK_MS}")
        click.echo(f"serving at {ensemble.connect_string}  (Ctrl-C stops it)")
        await ensemble.supervise(click.echo)
