"""What an examination has found, as values."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """How much it matters, the least first."""

    OK = "ok"
    SKIPPED = "skipped"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: what was examined, such as ``zookeeper``.
        subject: which of them, such as a server or a port.
        found: what was seen, in words.
        advice: what to do; empty where nothing is.
    """

    check: str
    subject: str
    level: Level
    found: str
    advice: str = ""

    def to_row(self) -> dict[str, Any]:
        """The finding as a JSON object."""
        return {
            "check": self.check,
            "subject": self.subject,
            "state": self.level.value,
            "found": self.found,
            "advice": self.advice,
        }


def worst(findings: Iterable[Finding]) -> Level:
    """The level that decides: an error, a warning, or ok."""
    levels = {finding.level for finding in findings}
    return next((level for level in (Level.ERROR, Level.WARNING) if level in levels), Level.OK)
