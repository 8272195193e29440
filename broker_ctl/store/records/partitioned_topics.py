"""How many partitions a topic has, as Pulsar's ``PartitionedTopicMetadata``.

Later releases added ``properties``, which clients set, and ``deleted``, which is true while a
broker deletes the partitions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from broker_ctl.codec import encode
from broker_ctl.store.records.fields import Fields
from broker_ctl.store.records.policies import other_fields

# A Java int holds no more.
_MOST: Final = (1 << 31) - 1
_KNOWN: Final = frozenset({"partitions"})


@dataclass(frozen=True, slots=True)
class PartitionedTopic:
    """The number of partitions; ``others`` is handed on untouched."""

    partitions: int
    others: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload; 0 partitions are a topic that is not partitioned.

        Raises:
            CorruptRecord: it does not fit.
        """
        fields = Fields.of(path, data)
        partitions = fields.integer("partitions", 0)
        if not 0 <= partitions <= _MOST:
            raise fields.corrupt("partitions", f"must be 0 to {_MOST}")
        return cls(partitions, other_fields(fields, _KNOWN))

    def encode(self) -> bytes:
        """The payload."""
        return encode({"partitions": self.partitions, **self.others})
