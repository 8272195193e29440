"""Files of secrets that others cannot read, and refusals to send a secret in the clear."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import click

# Whether a secret of a command may cross a network unencrypted.


F = TypeVar("F", bound=Callable[..., Any])

_ALLOWED: Final = "broker_ctl.allow_cleartext"
_OPTION: Final = "--allow-cleartext"


def _keep(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # by click
    del param
    ctx.meta[_ALLOWED] = value


class ConnectionOption(click.Option):
    """An option of how a daemon is reached; help pages have these in a section of their own."""


def cleartext_option(whereto: str) -> Callable[[F], F]:
    """Add --allow-cleartext, for a secret that goes to ``whereto``."""
    return click.option(
        _OPTION,
        cls=ConnectionOption,
        envvar="BROKER_CTL_ALLOW_CLEARTEXT",
        show_envvar=True,
        is_flag=True,
        expose_value=False,
        callback=_keep,
        help=f"Send the secret to {whereto} on other machines over http too, unencrypted.",
    )


def allows_cleartext(meta: Mapping[str, Any]) -> bool:
    """Whether the command of this context was given the option."""
    return bool(meta.get(_ALLOWED, False))


def crosses_in_the_clear(url: str) -> bool:
    """Whether others on a network can read what is sent to a URL."""
    from broker_ctl.settings.addresses import is_loopback

    found = urlsplit(url)
    return found.scheme != "https" and not is_loopback(found.hostname or "")


def refusal(url: str, what: str = "token") -> str:
    """Why a secret is not sent to a URL, and what to do."""
    return (
        f"the {what} would cross the network to {urlsplit(url).netloc} in the clear: nothing was "
        f"sent. Use https, or {_OPTION} (BROKER_CTL_ALLOW_CLEARTEXT=true) where the network is "
        "trusted"
    )


def require_private(url: str, what: str = "token") -> None:
    """Refuse to send a secret to a URL at which others could read it.

    Raises:
        ClickException: says what to do.
    """
    meta = click.get_current_context().meta
    if crosses_in_the_clear(url) and not allows_cleartext(meta):
        raise click.ClickException(refusal(url, what))


# Reads the secret files that options name.


def read_secret_file(path: Path, option: str, *, is_public: bool = False) -> bytes:
    """Read the file of an option; one line on stderr if others can read it and must not.

    Raises:
        click.BadParameter: it cannot be read, or others can write it.
    """
    from broker_ctl.security.guarded_files import read_guarded

    def warn(text: str) -> None:
        click.echo(f"warning: {option} {path}: {text}", err=True)

    try:
        return read_guarded(path, None if is_public else warn)
    except OSError as error:
        reason = error.strerror or error
        raise click.BadParameter(f"{path}: {reason}", param_hint=option) from error
