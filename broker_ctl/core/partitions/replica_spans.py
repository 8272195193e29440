"""Spans of a broker's replicas, and digests of what it was instructed with in them. Pure.

A controller that takes over does not repeat to a broker what that broker has: it sends a digest of
each span of the broker's replicas, and the broker answers in which spans it has anything else. Both
sides encode what is compared by the same code (`instructions.compared_row`). If a release encodes
it otherwise, the digests differ, and everything is sent.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from broker_ctl.core.partitions.names import TopicPartition

_BYTES: Final = 16
# In one instruction: some ten thousand replicas, compared within a few milliseconds.
MAX_SPANS: Final = 16


class Span(NamedTuple):
    """Names of replicas, ordered by topic and number, and a digest of those of a broker among them.

    Attributes:
        after, until: as those of a full instruction.
        digest: see `digest_of`.
    """

    after: TopicPartition | None
    until: TopicPartition | None
    digest: str


def within(
    ordered: Sequence[TopicPartition], after: TopicPartition | None, until: TopicPartition | None
) -> Sequence[TopicPartition]:
    """The part of ascending partitions in a span; None: from the first, to the last."""
    begin = 0 if after is None else bisect_right(ordered, after)
    end = len(ordered) if until is None else bisect_right(ordered, until)
    return ordered[begin:end]


def digest_of(rows: Iterable[bytes]) -> str:
    """Digest of what is compared of replicas, encoded, in the order of their names."""
    return blake2b(b",".join(rows), digest_size=_BYTES).hexdigest()


def spans_field(spans: Collection[Span]) -> dict[str, Any]:
    """The field ``spans`` of an instruction."""
    return {"spans": [[_end_row(after), _end_row(until), of] for after, until, of in spans]}


def spans_of(rows: Sequence[Any]) -> tuple[Span, ...]:
    """Parse what `spans_field` wrote; raises Python's own errors if it is not valid."""
    if not 1 <= len(rows) <= MAX_SPANS:
        raise ValueError(f"{len(rows)} spans; 1 to {MAX_SPANS} are allowed")
    return tuple(Span(end_of(after), end_of(until), str(of)) for after, until, of in rows)


def end_of(entry: Sequence[Any] | None) -> TopicPartition | None:
    """Parse an end of a span; raises as `spans_of`."""
    return None if entry is None else TopicPartition(str(entry[0]), int(entry[1]))


def _end_row(end: TopicPartition | None) -> list[Any] | None:
    return None if end is None else list(end)
