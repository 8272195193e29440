"""What `broker-ctl attach --once` has found, for its exit code."""

from collections.abc import Mapping
from enum import Enum
from typing import Any


class PlanState(Enum):
    """The result of one look at a cluster."""

    EMPTY = "empty"
    HAS_DECISIONS = "has_decisions"
    OUTDATED_METADATA = "outdated_metadata"

    @classmethod
    def of(cls, snapshot: Mapping[str, Any]) -> "PlanState":
        """The state that a snapshot shows; a plan of outdated metadata counts for nothing."""
        if snapshot["metadata_outdated"] is not None:
            return cls.OUTDATED_METADATA
        return cls.HAS_DECISIONS if snapshot["plan"]["decisions"] else cls.EMPTY
