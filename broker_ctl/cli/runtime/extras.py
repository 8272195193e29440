"""What an extra of the package brings, and how to get it."""

from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def needing(extra: str, who: str) -> Iterator[None]:
    """Around imports of what only an extra installs.

    Raises:
        ClickException: it is not there; says the command.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        raise click.ClickException(
            f"{who} needs {name}, which is not installed: run: pip install 'broker-ctl[{extra}]'"
        ) from error
