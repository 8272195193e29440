"""What a check has found out about one file."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class State(StrEnum):
    """The worst of what was found."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(slots=True)
class CheckedFile:
    """A file, by the setting that names it.

    Attributes:
        mode: its permissions, such as ``0600``; empty: it cannot be read.
        ends_at_s: Unix time at which the first certificate or the token in it ends; None: never.
        errors: a daemon would not start with it, or connections with it would fail.
        warnings: what an operator should change.
    """

    key: str
    path: Path
    mode: str = ""
    ends_at_s: float | None = None
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def state(self) -> State:
        """See `State`."""
        if self.errors:
            return State.ERROR
        return State.WARNING if self.warnings else State.OK

    def days_left(self, now_s: float) -> float | None:
        """Days until its end, negative after it; None: it has none."""
        return None if self.ends_at_s is None else (self.ends_at_s - now_s) / 86_400
