"""Output files: written atomically; existing ones are replaced only with --force."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

# Only the owner may read it.
SECRET_MODE: Final = 0o600


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


def create_file(path: Path, content: bytes, mode: int = SECRET_MODE) -> None:
    """Write a new file with this mode; an existing one is kept, whatever it is.

    Raises:
        ClickException: it exists, or cannot be written.
    """
    try:
        # Exclusive: a key that is in use must not be lost, and a planted link not be followed.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as opened:
            opened.write(content)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror or error}") from error


def replace_file(file: Path, content: bytes) -> None:
    """Replace an existing file atomically, with the same mode and owner.

    Raises:
        ClickException: it cannot be replaced.
    """
    fresh = file.with_name(f"{file.name}.new")
    try:
        was = file.stat()
        fresh.unlink(missing_ok=True)
        with os.fdopen(
            os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, SECRET_MODE), "wb"
        ) as out:
            out.write(content)
            out.flush()
            os.fchmod(out.fileno(), was.st_mode & 0o7777)
            if os.geteuid() == 0:
                os.fchown(out.fileno(), was.st_uid, was.st_gid)
            os.fsync(out.fileno())
        fresh.replace(file)
        directory = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror or error}") from error
