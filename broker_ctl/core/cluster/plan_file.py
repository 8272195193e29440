"""A placement plan as a file: moves with their reasons, and a hash of the contents.

It is computed outside of the cluster from its history, and is some time old when a leader gets it.
The hash detects truncated or changed files; it is not a signature.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from broker_ctl.core.cluster.decisions import Reason, Transfer
from broker_ctl.core.model.load import NO_LOAD
from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import InvalidName, OrderConflict

FORMAT: Final = 1
# A profile that is two days old predicts nothing any more; this also limits how long a plan holds.
HOLDS_MS: Final = 36 * 3_600_000
_WHY: Final = "by the daily profile"


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """One bundle that should change its owner.

    Attributes:
        load: mean over the hours of the profile, in the profile's unit.
    """

    bundle: Bundle
    source: str
    destination: str
    load: float


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A placement plan.

    Attributes:
        cluster: clusterName of its brokers.
        made_ms, from_ms, to_ms: time of its creation, and time range of its profile, in ms since
            1970.
        moves: the largest first.
        before, after: predicted max over mean usage by hour of the day in UTC.
    """

    cluster: str
    made_ms: int
    from_ms: int
    to_ms: int
    moves: tuple[PlannedMove, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]

    @property
    def hash(self) -> str:
        """SHA-256 of the contents, in hex."""
        text = json.dumps(self._content(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**self._content(), "hash": self.hash}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self:
        """Parse what ``to_row`` wrote.

        Raises:
            OrderConflict: it is not a plan, has another format, or was changed.
        """
        if row.get("format") != FORMAT:
            raise OrderConflict(
                f"the file has format {str(row.get('format'))[:40]}, this release reads {FORMAT}"
            )
        try:
            found = cls(
                cluster=str(row["cluster"]),
                made_ms=int(row["made_ms"]),
                from_ms=int(row["from_ms"]),
                to_ms=int(row["to_ms"]),
                moves=tuple(map(_move, row["moves"])),
                before=tuple(map(float, row["before"])),
                after=tuple(map(float, row["after"])),
            )
        except (KeyError, TypeError, ValueError, InvalidName) as error:
            raise OrderConflict(
                f"the file is not a plan: {type(error).__name__}: {error}"
            ) from error
        if found.hash != row.get("hash"):
            raise OrderConflict("the hash of the file is not that of its content: make it again")
        return found

    def check(self, cluster: str, now_ms: int) -> None:
        """Check that the plan is for this cluster and this time.

        Raises:
            OrderConflict: it is not.
        """
        if self.cluster != cluster:
            raise OrderConflict(f"the plan is for cluster {self.cluster[:100]}, this is {cluster}")
        if not 0 <= now_ms - self.to_ms < HOLDS_MS:
            hours = (now_ms - self.to_ms) / 3_600_000
            raise OrderConflict(
                f"the profile of the plan ended {hours:.1f} hours ago, "
                f"0 to {HOLDS_MS / 3_600_000:.0f} are allowed: make a new one"
            )

    @property
    def proposals(self) -> tuple[Transfer, ...]:
        """The moves; their loads come from the current view."""
        none = NO_LOAD
        return tuple(
            Transfer(
                move.bundle, move.source, move.destination, Reason.PROFILE, _WHY, none, none, none
            )
            for move in self.moves
        )

    def _content(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "cluster": self.cluster,
            "made_ms": self.made_ms,
            "from_ms": self.from_ms,
            "to_ms": self.to_ms,
            "moves": [
                {
                    "bundle": str(move.bundle),
                    "from": move.source,
                    "to": move.destination,
                    "load": move.load,
                }
                for move in self.moves
            ],
            "before": list(self.before),
            "after": list(self.after),
        }


def _move(row: Mapping[str, Any]) -> PlannedMove:
    return PlannedMove(
        Bundle.parse(str(row["bundle"])), str(row["from"]), str(row["to"]), float(row["load"])
    )
