"""Optional dependencies, which extras of the package install."""

from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def needing(extra: str, who: str) -> Iterator[None]:
    """Guard imports of packages that only an extra installs.

    Raises:
        ClickException: the extra is not installed; the message has the pip command.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        raise click.ClickException(
            f"{who} needs {name}, which is not installed: run: pip install 'broker-ctl[{extra}]'"
        ) from error
