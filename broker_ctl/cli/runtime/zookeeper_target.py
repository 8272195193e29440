"""Options of commands that open ZooKeeper: servers, TLS, and who the command is to them."""

import asyncio
import functools
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

import click

from broker_ctl.cli.runtime.secret_files import read_secret_file
from broker_ctl.cli.runtime.target import config_option

if TYPE_CHECKING:
    from broker_ctl.security.cluster_key import SigningKeys
    from broker_ctl.settings.root import Settings
    from broker_ctl.settings.sources import Reading
    from broker_ctl.store.signed import ZnodeSignatures
    from broker_ctl.store.zookeeper.store import ZooKeeperStore


# Opens ZooKeeper for commands that look at the signatures of nodes.


_CONNECT_S: Final = 10.0


def signatures_by(keys: "SigningKeys", settings: "Settings") -> "ZnodeSignatures":
    """Signs and verifies nodes with these keys, as daemons with these settings do."""
    from broker_ctl.clock import SystemClock
    from broker_ctl.daemon.wiring.security import signature_scope
    from broker_ctl.store.signed import ZnodeSignatures

    scope = signature_scope(settings)
    return ZnodeSignatures(keys, scope, SystemClock(), is_required=True, on_failure=lambda *_: None)


@asynccontextmanager
async def unverified_store(settings: "Settings") -> "AsyncIterator[ZooKeeperStore]":
    """A connection whose reads are not verified.

    Raises:
        ConnectionLoss: no server answered in time.
    """
    import random

    from broker_ctl.daemon.wiring.stores import StoreCredentials, open_store
    from broker_ctl.errors import ConnectionLoss
    from broker_ctl.instruments.declared import StoreInstruments

    url = settings.metadata.store_url
    assert url is not None, "the caller has checked it"
    store = open_store(
        settings,
        url,
        "metadata-store",
        random.SystemRandom(),
        instruments=StoreInstruments(),
        credentials=StoreCredentials.now(settings),
    )
    await store.start()
    try:
        try:
            async with asyncio.timeout(_CONNECT_S):
                await store.wait_connected()
        except TimeoutError:
            raise ConnectionLoss(
                f"no ZooKeeper server of {store.name} answered within {_CONNECT_S:g} s"
            ) from None
        yield store
    finally:
        await store.close()


# Options of commands that open ZooKeeper: servers, TLS, and who the command is to them.
#
# Each option is a setting of a daemon. A configuration file or the environment may give it
# instead, so that no secret is ever an argument: options name files.


P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_GIVEN: Final = "broker_ctl.zookeeper"


@dataclass(frozen=True, slots=True)
class ZooKeeperTarget:
    """The servers that a command opens, and how.

    Attributes:
        configuration: a broker.conf, or None.
        entries: texts ``key=value`` of the options, which override the file and the environment.
    """

    configuration: Path | None
    entries: tuple[str, ...]

    def read(self, *overrides: str) -> "Reading":
        """The settings of file, environment, options and then ``overrides``."""
        from broker_ctl.settings.sources import read

        return read(self.configuration, os.environ, [*self.entries, *overrides])

    def settings(self) -> "Settings":
        """The settings, if the command may connect with them.

        Raises:
            SettingsError: a source has a problem, or a secret would cross a network in the clear.
            click.UsageError: no servers are named.
        """
        settings = self.read().valid_settings()
        require_servers(settings)
        require_private(settings)
        return settings


def require_servers(settings: "Settings") -> None:
    """Refuse settings without servers.

    Raises:
        click.UsageError: metadataStoreUrl has no value.
    """
    if settings.metadata.store_url is None:
        raise click.UsageError("no servers: name them with --zookeeper, or metadataStoreUrl")


def require_private(settings: "Settings") -> None:
    """Refuse to show a password to a network.

    Raises:
        SettingsError: names the settings to change.
    """
    from broker_ctl.errors import SettingsError
    from broker_ctl.settings.contradictions import store_refusals

    if problems := [str(found.problem(settings)) for found in store_refusals(settings)]:
        raise SettingsError("\n".join(problems))


def _setting(name: str, key: str, text: str, *, is_flag: bool = False) -> Callable[[F], F]:
    """An option that is a setting: a file, or a flag that sets it to true."""

    def keep(ctx: click.Context, _: click.Parameter, value: Path | bool | None) -> None:
        if value:
            _given(ctx)[key] = "true" if value is True else str(value)

    kind = None if is_flag else _FILE
    return click.option(
        name, type=kind, is_flag=is_flag, expose_value=False, callback=keep, help=text
    )


def _password(names: tuple[str, ...], key: str, text: str) -> Callable[[F], F]:
    """An option that names the file of a password."""

    def keep(ctx: click.Context, _: click.Parameter, file: Path | None) -> None:
        if file is not None:
            read_secret_file(file, names[0])
            _given(ctx)[key] = str(file)

    return click.option(*names, type=_FILE, expose_value=False, callback=keep, help=text)


def _keep_servers(ctx: click.Context, _: click.Parameter, text: str | None) -> None:
    from broker_ctl.settings.addresses import StoreUrl

    if text is None:
        return
    try:
        _given(ctx)["metadataStoreUrl"] = str(StoreUrl.parse(text))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _keep_certificate(
    ctx: click.Context, _: click.Parameter, files: tuple[Path, Path] | None
) -> None:
    if files:
        names = ("zookeeperTlsCertFile", "zookeeperTlsKeyFile")
        _given(ctx).update(zip(names, map(str, files), strict=True))


def _given(ctx: click.Context) -> dict[str, str]:
    """The settings that options gave, by key."""
    given: dict[str, str] = ctx.meta.setdefault(_GIVEN, {})
    return given


_OPTIONS: Final = (
    click.option(
        "--zookeeper",
        envvar="BROKER_CTL_ZOOKEEPER",
        show_envvar=True,
        metavar="HOSTS[/CHROOT]",
        expose_value=False,
        callback=_keep_servers,
        help=(
            "ZooKeeper servers of the metadata store: host:port,host:port/chroot.  [default: "
            "metadataStoreUrl]"
        ),
    ),
    config_option(
        "File with settings, such as a broker.conf or only its keys of ZooKeeper; options "
        "override it.",
        exists=True,
    ),
    _setting("--zookeeper-tls", "zookeeperTlsEnabled", "Use TLS.", is_flag=True),
    _setting(
        "--zookeeper-tls-ca",
        "zookeeperTlsCaFile",
        "File with the CA certificates (PEM) for verifying the servers; implies TLS.",
    ),
    click.option(
        "--zookeeper-tls-cert",
        nargs=2,
        metavar="FILE KEY_FILE",
        type=_FILE,
        expose_value=False,
        callback=_keep_certificate,
        help="Files with the client certificate, the identity x509, and its key (PEM); imply TLS.",
    ),
    _password(
        ("--zookeeper-sasl-file",),
        "zookeeperSaslDigestFile",
        "File with user:password for SASL DIGEST-MD5.",
    ),
    _password(
        ("--zookeeper-digest-file", "--auth-digest-file"),
        "zookeeperAuthDigestFile",
        "File with user:password for ZooKeeper's digest authentication.",
    ),
)


def zookeeper_options(
    command: Callable[Concatenate[ZooKeeperTarget, P], None],
) -> Callable[..., None]:
    """Add the options of commands that open ZooKeeper; the command gets a `ZooKeeperTarget`."""

    @functools.wraps(command)
    def with_target(configuration: Path | None, *args: P.args, **kwargs: P.kwargs) -> None:
        given = _given(click.get_current_context())
        if any(key.startswith("zookeeperTls") for key in given):
            given["zookeeperTlsEnabled"] = "true"
        entries = tuple(f"{key}={value}" for key, value in given.items())
        command(ZooKeeperTarget(configuration, entries), *args, **kwargs)

    decorated: Callable[..., None] = with_target
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
