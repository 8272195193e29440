"""Options of commands that talk to a daemon: address, credentials, TLS, timeout, output."""

import functools
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar
from urllib.parse import urlsplit

import click

from broker_ctl.cli.runtime.output import Output, chosen_format, output_option
from broker_ctl.cli.runtime.secret_files import (
    ConnectionOption,
    allows_cleartext,
    cleartext_option,
    read_secret_file,
)

if TYPE_CHECKING:
    from ssl import SSLContext

    from broker_ctl.cli.runtime.client import DaemonClient, TlsTrust


# Options of commands that read the settings of a daemon: --config and --set.


F = TypeVar("F", bound=Callable[..., Any])

_OVERRIDES: Final = "Setting that overrides file and environment; repeatable."


def config_option(
    text: str, *, exists: bool = False, name: str = "configuration"
) -> Callable[[F], F]:
    """Add --config, a broker.conf; without ``exists`` the settings report a missing file."""
    kind = click.Path(exists=exists, dir_okay=False, path_type=Path)
    return click.option("-c", "--config", name, type=kind, help=text)


def set_option(text: str = _OVERRIDES) -> Callable[[F], F]:
    """Add --set, texts ``key=value``, as ``overrides``."""
    return click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help=text)


def settings_options(text: str) -> Callable[[F], F]:
    """Add both; ``text`` is the help of --config."""

    def decorate(command: F) -> F:
        return config_option(text)(set_option()(command))

    return decorate


# Options of commands that talk to a daemon: address, credentials, TLS, timeout, output.


P = ParamSpec("P")
T = TypeVar("T")

_DEFAULT_URL: Final = "http://127.0.0.1:8080"
_TIMEOUT: Final = "broker_ctl.timeout_s"
_TRUSTED: Final = "broker_ctl.trusted_hosts"


def _keep_trusted(ctx: click.Context, param: click.Parameter, value: str) -> None:
    del param
    ctx.meta[_TRUSTED] = tuple(host.strip() for host in value.split(",") if host.strip())


_TOKEN_FILE: Final = click.option(
    "--token-file",
    cls=ConnectionOption,
    envvar="BROKER_CTL_TOKEN_FILE",
    show_envvar=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=(
        "File with the bearer token, or with role:secret lines, of which the first is used.  "
        "[default: the token that a daemon on this machine has drawn, if there is one]"
    ),
)
_TRUSTED_HOSTS: Final = click.option(
    "--trusted-hosts",
    cls=ConnectionOption,
    envvar="BROKER_CTL_TRUSTED_HOSTS",
    show_envvar=True,
    default="",
    expose_value=False,
    callback=_keep_trusted,
    metavar="HOST,...",
    help=(
        "Further hosts to which the token is sent when a daemon redirects there; .example.com "
        "stands for every name below it."
    ),
)
_TLS_CA: Final = click.option(
    "--tls-ca",
    cls=ConnectionOption,
    envvar="BROKER_CTL_TLS_CA",
    show_envvar=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the CA certificates (PEM) for verifying an https daemon.",
)
_TLS_CERT: Final = click.option(
    "--tls-cert",
    cls=ConnectionOption,
    envvar="BROKER_CTL_TLS_CERT",
    show_envvar=True,
    nargs=2,
    metavar="FILE KEY_FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=(
        "Files with the client certificate and its key (PEM) for an https daemon; "
        "separated by a colon in the environment."
    ),
)


def _keep_timeout(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    del param
    ctx.meta[_TIMEOUT] = value
    return value


_TIMEOUT_OPTION: Final = click.option(
    "--timeout",
    cls=ConnectionOption,
    type=click.FloatRange(0.1, 3600.0),
    metavar="SECONDS",
    expose_value=False,
    callback=_keep_timeout,
    help="Timeout of a request.  [default: 40 for reads, 120 for changes]",
)


@dataclass(frozen=True, slots=True)
class Target:
    """The daemon that a command talks to, and how."""

    url: str
    token: str | None = field(repr=False)
    output: Output
    tls: "SSLContext | None" = field(default=None, repr=False)
    timeout_s: float | None = None
    trusted_hosts: tuple[str, ...] = ()
    has_authority: bool = False
    allows_cleartext: bool = False

    @property
    def is_json(self) -> bool:
        """Whether the output is JSON."""
        return self.output is Output.JSON

    def run(self, work: "Callable[[DaemonClient], Awaitable[T]]") -> T:
        """Call ``work`` with a client of this daemon."""
        import asyncio

        from broker_ctl.cli.runtime.client import DaemonClient

        async def session() -> T:
            trust = self.trust()
            async with DaemonClient(
                self.url, self.token, self.tls, self.timeout_s, trust
            ) as client:
                return await work(client)

        return asyncio.run(session())

    def trust(self) -> "TlsTrust":
        """Where the token may go."""
        from broker_ctl.cli.runtime.client import TlsTrust
        from broker_ctl.core.model.broker import AllowedHosts

        hosts = AllowedHosts.parse(self.trusted_hosts)
        return TlsTrust(hosts, self.has_authority, self.allows_cleartext)


def daemon_options(command: Callable[Concatenate[Target, P], None]) -> Callable[..., None]:
    """Add the options of commands that talk to a daemon; the command gets a `Target`."""

    @click.option(
        "--url",
        cls=ConnectionOption,
        envvar="BROKER_CTL_URL",
        show_envvar=True,
        default=_DEFAULT_URL,
        show_default=True,
        help=(
            "URL of a daemon; any daemon of the cluster, since it redirects to the responsible one."
        ),
    )
    @_TOKEN_FILE
    @_TRUSTED_HOSTS
    @cleartext_option("daemons")
    @_TLS_CA
    @_TLS_CERT
    @_TIMEOUT_OPTION
    @output_option()
    @functools.wraps(command)
    def with_target(
        url: str,
        token_file: Path | None,
        tls_ca: Path | None,
        tls_cert: tuple[Path, Path] | None,
        output: str,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        given = {"url": url, "token_file": token_file, "tls_ca": tls_ca, "tls_cert": tls_cert}
        meta = click.get_current_context().meta
        is_for_programs = output == Output.JSON and chosen_format() is not Output.WIDE
        target = target_of({**given, "output": output}, meta, timeout_s=meta.get(_TIMEOUT))
        with _errors_as_json() if is_for_programs else nullcontext():
            command(target, *args, **kwargs)

    return with_target


def target_of(
    params: Mapping[str, Any], meta: Mapping[str, Any], *, timeout_s: float | None
) -> Target:
    """The target of the options of `daemon_options`; those that are not given have defaults.

    Raises:
        ClickException: an option cannot be used.
    """
    url = _valid_url(params.get("url") or os.environ.get("BROKER_CTL_URL") or _DEFAULT_URL)
    token_file, authorities = params.get("token_file"), params.get("tls_ca")
    return Target(
        url,
        _local_token(url) if token_file is None else _read_token(token_file),
        Output(params.get("output") or Output.TABLE),
        _tls_context(authorities, params.get("tls_cert")),
        timeout_s,
        meta.get(_TRUSTED, ()),
        bool(authorities),
        allows_cleartext(meta),
    )


class _JsonError(click.ClickException):
    """An error that is printed on stderr as one line of JSON."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self._kind = kind

    def show(self, file: IO[Any] | None = None) -> None:
        """See `click.ClickException.show`."""
        from broker_ctl.codec import encode

        text = encode({"error": self._kind, "reason": self.message}).decode()
        click.echo(text, file=file, err=file is None)


@contextmanager
def _errors_as_json() -> Iterator[None]:
    """Report the errors of the block as JSON; usage errors stay text."""
    from broker_ctl.errors import BrokerCtlError

    try:
        yield
    except BrokerCtlError as error:
        raise _JsonError(type(error).__name__, str(error)) from error
    except click.UsageError:
        raise
    except click.ClickException as error:
        raise _JsonError("Error", error.message) from error


def _valid_url(url: str) -> str:
    from broker_ctl.settings.addresses import HttpUrl

    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() not in {"http", "https"}:
        raise click.BadParameter(
            f"{url!r} has no scheme: http://{url.rpartition('://')[2]}, or https://",
            param_hint="'--url'",
        )
    url = f"{scheme.lower()}://{rest}"
    try:
        HttpUrl.parse(url)
    except ValueError as error:
        # The text of the URL may have a password.
        more = "; one daemon is asked, not a list" if "," in rest and "@" not in rest else ""
        raise click.BadParameter(f"{error}{more}", param_hint="'--url'") from None
    return url


def _tls_context(authorities: Path | None, own: tuple[Path, Path] | None) -> "SSLContext | None":
    if authorities is None and own is None:
        return None
    from broker_ctl.daemon.wiring.tls import KeyPair, PemFile, client_context

    return client_context(
        None if authorities is None else PemFile("--tls-ca", authorities),
        None if own is None else KeyPair(*(PemFile("--tls-cert", path) for path in own)),
    )


def _local_token(url: str) -> str | None:
    """The token that a daemon on this machine keeps for its commands."""
    from broker_ctl.security.static_tokens import find_token
    from broker_ctl.settings.addresses import is_loopback

    host = urlsplit(url).hostname
    return find_token(url, os.environ) if host is not None and is_loopback(host) else None


def _read_token(path: Path) -> str:
    from broker_ctl.security.static_tokens import is_hash, token_lines

    text = read_secret_file(path, "--token-file").decode(errors="replace")
    token = next((token for _, _, token in token_lines(text)), "")
    if not token.isascii() or not token.isprintable() or not token:
        raise click.BadParameter(f"{path} does not contain a token", param_hint="--token-file")
    if is_hash(token):
        raise click.BadParameter(
            f"{path} begins with the hash of a token: name the file with the token itself",
            param_hint="--token-file",
        )
    return token
