"""Lasting directives of operators: a pause, and drains of brokers.

They stay in force across leaders until an operator revokes them (docs: cruise-control).
"""

from dataclasses import dataclass
from typing import Any, Final

MOST_REASON: Final = 512
MOST_WHO: Final = 128


@dataclass(frozen=True, slots=True)
class AuditInfo:
    """Who gave a directive, when and why.

    Attributes:
        at_ms: time in ms since 1970.
        who: a role, or the name that the operator gave; empty if there is none.
        why: reason in the operator's words.
    """

    at_ms: int
    who: str = ""
    why: str = ""

    @classmethod
    def of(cls, at_ms: int, who: str, why: str) -> "AuditInfo":
        """Build it, truncating texts to the limits of a node."""
        return cls(at_ms, who[:MOST_WHO], why[:MOST_REASON])

    @property
    def suffix(self) -> str:
        """Text for the end of a log line; empty if neither who nor why is known."""
        by = f" by {self.who}" if self.who else ""
        return by + (f": {self.why}" if self.why else "")

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"since_ms": self.at_ms, "by": self.who, "reason": self.why}


@dataclass(frozen=True, slots=True)
class Pause:
    """The leader makes decisions, and executes none of its own.

    Attributes:
        is_automatic: the leader gave it itself, and ends it when its cause is over.
        lost: the brokers whose loss is the cause of an automatic one: a broker that starts later
            has not seen them, and may lead.
        rollout_id: the rollout that gave it and ends it; empty: none.
    """

    order: AuditInfo
    is_automatic: bool = False
    lost: tuple[str, ...] = ()
    rollout_id: str = ""

    @property
    def is_operators(self) -> bool:
        """Whether only an operator ends it."""
        return not (self.is_automatic or self.rollout_id)

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"paused": True, **self.order.to_row(), "automatic": self.is_automatic}


@dataclass(frozen=True, slots=True)
class Drain:
    """A broker is emptied and receives nothing, even after a restart.

    Attributes:
        bundles: number of its bundles when the drain began.
        throughput_bytes: their throughput then, in bytes/s.
        ends_ms: when the leader ends it, in ms since 1970; 0: not at a time.
        ends_after: the run of the broker after which the leader ends the drain, once another run
            has registered; empty: not at a restart.
        rollout_id: the rollout that gave it and ends it; empty: none.
    """

    order: AuditInfo
    bundles: int
    throughput_bytes: float
    ends_ms: int = 0
    ends_after: str = ""
    rollout_id: str = ""


@dataclass(frozen=True, slots=True)
class DrainTerms:
    """What an operator asks of a drain beside its broker.

    Attributes:
        begins_ms: when it begins, in ms since 1970; 0: now.
        ends_ms: when it ends, in ms since 1970; 0: not at a time.
        until_restart: whether it ends when the broker has restarted.
        is_forced: whether it begins although the other brokers lack room.
    """

    begins_ms: int = 0
    ends_ms: int = 0
    until_restart: bool = False
    is_forced: bool = False


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """A drain that begins later."""

    order: AuditInfo
    terms: DrainTerms
