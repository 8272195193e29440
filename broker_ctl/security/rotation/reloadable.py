"""A value that is made of files, and made again when they change.

The new value replaces the old one only if it could be loaded whole: files that are missing, half
written, or do not belong together leave the old one in use. It is tried again at each check.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, TypeVar

from broker_ctl.errors import BrokerCtlError
from broker_ctl.security.rotation.expiry import Life, life_of
from broker_ctl.security.rotation.fingerprint import fingerprint

log = logging.getLogger(__name__)

T = TypeVar("T")

# Files that change during every one of these attempts are left for the next check.
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class Attempt(Generic[T]):
    """What came of reading changed files.

    Attributes:
        fingerprint: of what was read.
        value: None: it could not be loaded, or is the one in use.
        error: why it could not be loaded; empty: it could.
        lives: of the value; see `Reloadable`.
    """

    fingerprint: bytes
    value: T | None = None
    error: str = ""
    lives: Mapping[Path, Life] = field(default_factory=dict)


class Reloadable(Generic[T]):
    """The newest value that could be loaded.

    Args:
        name: of what it is, in the log and in metrics.
        paths: the files that `load` reads.
        load: makes the value; runs in a thread, except for the first time.
        period_s: time between two checks of the files.

    Attributes:
        current: the value in use.
        lives: by file, of what ends first in it.
        reloads: how often it was replaced.
        failures: how many different contents of the files could not be loaded.
        is_failing: whether the files of the latest check could not be loaded.

    Raises:
        BrokerCtlError: what `load` raises; the first value must be there.
    """

    def __init__(
        self, name: str, paths: Sequence[Path], load: Callable[[], T], period_s: float
    ) -> None:
        self.name: Final = name
        self.paths: Final = tuple(paths)
        self.period_s: Final = period_s
        self.reloads = 0
        self.failures = 0
        self._load = load
        # Before the load: what changes in between is noticed by the first check.
        self._loaded = fingerprint(self.paths)
        self._failed: tuple[bytes, str] | None = None
        self._listeners: list[Callable[[T], None]] = []
        self.current: T = load()
        self.lives = _lives_of(self.paths)

    @property
    def is_failing(self) -> bool:
        """See the class."""
        return self._failed is not None

    @property
    def is_watchable(self) -> bool:
        """Whether the files can be read again: not so a pipe."""
        return self._loaded is not None

    def listen(self, listener: Callable[[T], None]) -> None:
        """Call ``listener`` in the event loop with each value that replaces another."""
        self._listeners.append(listener)

    def read(self) -> Attempt[T] | None:
        """Read the files if they have changed or could not be loaded; None: nothing to settle.

        Blocks, and changes nothing; for a thread.
        """
        for _ in range(_ATTEMPTS):
            found = fingerprint(self.paths)
            if found is None:
                return None
            if found == self._loaded:
                return Attempt(found) if self.is_failing else None
            try:
                value = self._load()
                attempt = Attempt(found, value, lives=_lives_of(self.paths))
            except (BrokerCtlError, OSError, ValueError) as error:
                attempt = Attempt(found, error=str(error) or type(error).__name__)
            # What was loaded may be of files that were being replaced one by one.
            if fingerprint(self.paths) == found:
                return attempt
        return None

    def settle(self, attempt: Attempt[T]) -> None:
        """Use what was read, or say why not."""
        if attempt.error:
            failed = attempt.fingerprint, attempt.error
            if failed != self._failed:
                self._failed = failed
                self.failures += 1
                log.error("%s: the changed files are not used: %s", self.name, attempt.error)
            return
        self._failed = None
        if attempt.value is None:
            log.info("%s: the files are again those in use", self.name)
            return
        self._loaded = attempt.fingerprint
        self.current, self.lives = attempt.value, attempt.lives
        self.reloads += 1
        log.info("%s: the changed files are in use now", self.name)
        for listener in self._listeners:
            listener(attempt.value)


def _lives_of(paths: Sequence[Path]) -> Mapping[Path, Life]:
    found: dict[Path, Life] = {}
    for path in paths:
        # What cannot be read is found by the load; a pipe was read by it.
        if path.is_file() and (life := life_of(path.read_bytes())) is not None:
            found[path] = life
    return found
