"""The files below ``files/``; a checkout has links there to ``deploy/`` and ``config/``."""

from importlib.resources import files
from pathlib import Path
from typing import Final

import click

_FILES: Final = files("broker_ctl.cli.install") / "files"
FILE_MODE: Final = 0o644


def read_text(name: str) -> str:
    """The text of one of them, such as ``systemd/broker-ctl.service``."""
    return (_FILES / name).read_text(encoding="utf-8")


def write_file(path: Path, text: str, mode: int) -> None:
    """Write a whole file, with the directories that it needs; an existing one is replaced.

    Raises:
        ClickException: it cannot be written.
    """
    from broker_ctl.cli.runtime.output_files import atomic_output, create_file

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.ClickException(f"{path.parent}: {error.strerror or error}") from error
    with atomic_output(path) as beside:
        create_file(beside, text.encode(), mode)
