"""Verbs under an earlier name: hidden, for one release."""

import functools
from typing import Any

import click

_EXAMPLE = "  broker-ctl "


def renamed(command: click.Command, earlier: str, name: str) -> click.Command:
    """The verb `name` under its earlier name; a line on stderr names the new one."""
    assert command.callback is not None
    callback = command.callback

    @functools.wraps(callback)
    def warn_and_run(*args: Any, **kwargs: Any) -> Any:
        click.echo(f"broker-ctl {earlier} is deprecated: use broker-ctl {name}", err=True)
        return callback(*args, **kwargs)

    return click.Command(
        earlier,
        callback=warn_and_run,
        params=command.params,
        help=f"{command.help}\n\nDeprecated: use `broker-ctl {name}`.",
        epilog=_examples_of(command.epilog or "", earlier, name),
        hidden=True,
    )


def _examples_of(epilog: str, earlier: str, name: str) -> str:
    """Without the examples of the other verbs in the group."""
    return "\n".join(
        line.replace(f"{_EXAMPLE}{name}", f"{_EXAMPLE}{earlier}")
        for line in epilog.splitlines()
        if not line.startswith(_EXAMPLE) or line.startswith(f"{_EXAMPLE}{name} ")
    )
