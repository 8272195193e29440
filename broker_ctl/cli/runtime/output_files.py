"""Output files: written atomically; existing ones are replaced only with --force."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click


def check_new(path: Path, option: str, *, is_forced: bool) -> None:
    """Check an output path before the work starts.

    Raises:
        BadParameter: the file exists, or its directory does not.
    """
    hint = f"'{option}'"
    if path.is_dir() or not path.parent.is_dir():
        raise click.BadParameter(f"{path}: not a file in an existing directory", param_hint=hint)
    if path.exists() and not is_forced:
        raise click.BadParameter(f"{path} exists; --force replaces it", param_hint=hint)


@contextmanager
def atomic_output(path: Path) -> Iterator[Path]:
    """A temporary path with the same suffix, renamed to ``path`` at the end of the block.

    Raises:
        ClickException: the file cannot be written.
    """
    # The pid: another run may be writing the same file.
    beside = path.with_name(f".{path.stem}.{os.getpid()}.tmp{path.suffix}")
    try:
        yield beside
        beside.replace(path)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror or error}") from error
    finally:
        beside.unlink(missing_ok=True)
