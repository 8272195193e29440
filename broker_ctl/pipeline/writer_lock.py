"""Locks of tables on this machine: one writer at a time, or one commit at a time."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from broker_ctl.errors import PipelineError

# Names with an underscore in front are not part of a table.
_LOCK: Final = "_lock"


@contextmanager
def alone(directory: Path | None) -> Iterator[None]:
    """Lock the tables: another writer would delete incomplete batches of this one.

    Args:
        directory: of the tables; None: they are not on this machine, and there is no lock.

    Raises:
        PipelineError: another one writes there, or the directory is not writable.
    """
    with _locked(directory, fcntl.LOCK_EX | fcntl.LOCK_NB):
        yield


@contextmanager
def taking_turns(directory: Path | None) -> Iterator[None]:
    """As `alone`, but waits until the others are through."""
    with _locked(directory, fcntl.LOCK_EX):
        yield


@contextmanager
def _locked(directory: Path | None, how: int) -> Iterator[None]:
    if directory is None:
        yield
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / _LOCK).open("ab")
    except OSError as error:
        raise PipelineError(f"{directory}: {error.strerror}") from error
    with lock:
        try:
            # The kernel releases the lock when the process ends, even by SIGKILL.
            fcntl.flock(lock, how)
        except BlockingIOError as error:
            raise PipelineError(f"{directory}: another ingest or merge writes there") from error
        except OSError as error:
            raise PipelineError(f"{directory / _LOCK}: {error.strerror}") from error
        yield
