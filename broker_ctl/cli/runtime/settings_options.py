"""Options of commands that read the settings of a daemon: --config and --set."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

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
