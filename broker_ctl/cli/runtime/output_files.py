"""Files that verbs write: whole or not at all, and over nothing that is there unless told to."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click


def check_new(path: Path, option: str, *, is_forced: bool) -> None:
    """Before the work, so that it is not done in vain.

    Raises:
        BadParameter: the file is there, or its directory is not.
    """
    hint = f"'{option}'"
    if path.is_dir() or not path.parent.is_dir():
        raise click.BadParameter(f"{path}: not a file in an existing directory", param_hint=hint)
    if path.exists() and not is_forced:
        raise click.BadParameter(f"{path} exists; --force replaces it", param_hint=hint)


@contextmanager
def atomic_output(path: Path) -> Iterator[Path]:
    """A name beside it, of the same suffix, to write to; it takes the place at the end.

    Raises:
        ClickException: it cannot.
    """
    # Another run may be writing the same file.
    beside = path.with_name(f".{path.stem}.{os.getpid()}.tmp{path.suffix}")
    try:
        yield beside
        beside.replace(path)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror or error}") from error
    finally:
        beside.unlink(missing_ok=True)
