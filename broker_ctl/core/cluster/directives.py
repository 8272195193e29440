"""What operators order for longer than one act: a pause, and brokers to be drained.

They hold across leaders until an operator revokes them (docs: cruise-control).
"""

from dataclasses import dataclass
from typing import Any, Final

MOST_REASON: Final = 512
MOST_WHO: Final = 128


@dataclass(frozen=True, slots=True)
class AuditInfo:
    """Who ordered something, when and why.

    Attributes:
        at_ms: in ms since 1970.
        who: a role, or the name that the operator gave; empty if none was given.
        why: in their words.
    """

    at_ms: int
    who: str = ""
    why: str = ""

    @classmethod
    def of(cls, at_ms: int, who: str, why: str) -> "AuditInfo":
        """With texts that are cut to what a node may hold of them."""
        return cls(at_ms, who[:MOST_WHO], why[:MOST_REASON])

    @property
    def suffix(self) -> str:
        """For a log line, after the directive; empty where neither is known."""
        by = f" by {self.who}" if self.who else ""
        return by + (f": {self.why}" if self.why else "")

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"since_ms": self.at_ms, "by": self.who, "reason": self.why}


@dataclass(frozen=True, slots=True)
class Pause:
    """The leader decides, and does nothing of it by itself."""

    order: AuditInfo

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"paused": True, **self.order.to_row()}


@dataclass(frozen=True, slots=True)
class Drain:
    """A broker gives everything up and receives nothing, even after a restart.

    Attributes:
        bundles: what it had when the drain began.
        throughput_bytes: bytes/s of them then.
    """

    order: AuditInfo
    bundles: int
    throughput_bytes: float
