"""Whether a secret of a command may cross a network unencrypted."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import click

F = TypeVar("F", bound=Callable[..., Any])

_ALLOWED: Final = "broker_ctl.allow_cleartext"
_OPTION: Final = "--allow-cleartext"


def _keep(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # by click
    del param
    ctx.meta[_ALLOWED] = value


def cleartext_option(whereto: str) -> Callable[[F], F]:
    """Add --allow-cleartext, for a secret that goes to ``whereto``."""
    return click.option(
        _OPTION,
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
