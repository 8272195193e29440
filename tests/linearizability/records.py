"""Histories of committed records, of acts, and of counted writes, as the suites collect them."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from broker_ctl.core.partitions.values import TopicPartition
from tests.linearizability.checker import Operation, check
from tests.linearizability.models import OwnedHash, PartitionLog, VersionedNode

_LOG: Final = PartitionLog()
_OWNED: Final = OwnedHash()
_NODE: Final = VersionedNode()


@dataclass(slots=True)
class RecordHistory:
    """What clients of replicated partitions called and were answered."""

    _appends: dict[TopicPartition, list[Operation]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _reads: dict[TopicPartition, list[Operation]] = field(default_factory=lambda: defaultdict(list))

    def append(
        self,
        partition: TopicPartition,
        value: bytes,
        called_s: float,
        answered_s: float,
        offset: int,
    ) -> None:
        """A record was acknowledged."""
        wish = ("append", value)
        self._appends[partition].append(Operation(called_s, answered_s, wish, offset))

    def append_unanswered(self, partition: TopicPartition, value: bytes, called_s: float) -> None:
        """It may be committed, then or later."""
        self._appends[partition].append(Operation(called_s, math.inf, ("append", value)))

    def read(
        self,
        partition: TopicPartition,
        offset: int,
        values: Sequence[bytes],
        called_s: float,
        answered_s: float,
    ) -> None:
        """Records from an offset on."""
        operation = Operation(called_s, answered_s, ("read", offset), tuple(values))
        self._reads[partition].append(operation)

    def judge(self, logs: Mapping[TopicPartition, Sequence[bytes]], end_s: float) -> Iterator[str]:
        """I9, by the order in time; ``logs`` are those of the end, when all is committed.

        They report which unanswered records there are, and where: what is in none never was.
        """
        for partition, appends in self._appends.items():
            log = logs.get(partition, ())
            offsets = {value: offset for offset, value in enumerate(log)}
            history = [
                one
                if one.is_answered
                else Operation(one.called_s, end_s, one.wish, offsets[one.wish[1]])
                for one in appends
                if one.is_answered or one.wish[1] in offsets
            ]
            history += self._reads[partition]
            history.append(Operation(end_s, end_s, ("all", 0), tuple(log)))
            if (stuck := check(_LOG, history).stuck) is not None:
                said = f"{stuck.wish} was answered with {stuck.answer} at {stuck.returned_s:.3f}"
                yield f"I9: {partition}: no order of its records explains that {said}"


@dataclass(frozen=True, slots=True)
class Owned:
    """From when to when a broker owned hashes; ``end_s`` is None while it still does."""

    broker: str
    begin_s: float
    end_s: float | None


def acts_out_of_order(
    owned: Iterable[Owned], acts: Iterable[tuple[float, str]], slack_s: float
) -> Operation | None:
    """The first act for a hash that no order of owners and acts explains; None: there is one.

    ``acts`` are times and brokers; clocks of the two may differ by ``slack_s``.
    """
    history: list[Operation] = []
    for one in owned:
        history.append(_at(one.begin_s, slack_s, "own", one.broker))
        if one.end_s is not None:
            history.append(_at(one.end_s, slack_s, "end", one.broker))
    history += [_at(t_s, slack_s, "act", broker) for t_s, broker in acts]
    return check(_OWNED, history).stuck


def _at(t_s: float, slack_s: float, kind: str, broker: str) -> Operation:
    return Operation(t_s - slack_s, t_s + slack_s, (kind, broker))


def writes_out_of_order(writes: Sequence[Operation]) -> Operation | None:
    """The first write of a node by version that no order of the writes explains."""
    return check(_NODE, writes).stuck
