"""The node by which a Pulsar cluster coordinates the migration of its metadata to another store.

Docs: pulsar-metadata-migration.
"""

from dataclasses import dataclass
from typing import Final, Self

from broker_ctl.store.records.fields import Fields

# Before a migration, and after one that failed: the brokers read and write this store.
_AT_REST: Final = frozenset({"NOT_STARTED", "FAILED"})
_COMPLETED: Final = "COMPLETED"


@dataclass(frozen=True, slots=True)
class MigrationRecord:
    """How far a migration is.

    Attributes:
        phase: Pulsar's name of it; one that is unknown here counts as a migration under way.
        target_url: the other store; empty if the node does not name it.
    """

    phase: str
    target_url: str = ""

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload.

        Raises:
            CorruptRecord: it does not fit.
        """
        fields = Fields.of(path, data)
        return cls(fields.text("phase"), fields.text("targetUrl", ""))

    @property
    def outdates_store(self) -> bool:
        """Whether the brokers have stopped writing to the store that has this node."""
        return self.phase not in _AT_REST

    @property
    def is_completed(self) -> bool:
        """Whether the brokers use the other store."""
        return self.phase == _COMPLETED
