"""What became of the sessions of loops that did not run (I12), by the servers' own logs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.chaos.judges.history import Closed, Transaction


@dataclass(frozen=True, slots=True)
class Hold:
    """A loop that did not run, and the session that its broker was registered in; wall clock."""

    broker_id: str
    session: int
    begin_ms: int
    end_ms: int


def lost_or_kept(
    holds: Sequence[Hold], history: Sequence[Transaction], watchdog_ms: int, expiry_ms: int
) -> Iterator[str]:
    """I12: the session of a busy loop does not expire, that of a dead one does in time.

    ``expiry_ms``: after the watchdog gave the loop up, at the latest.
    """
    ends = {one.session: one.time_ms for one in history if Closed() in one.changes}
    for hold in holds:
        end_ms = ends.get(hold.session, hold.end_ms + 1)
        after_ms = end_ms - hold.begin_ms
        if 0 <= after_ms < watchdog_ms and end_ms <= hold.end_ms:
            yield f"I12: {hold.broker_id} was busy and lost its session after {after_ms} ms"
        limit_ms = watchdog_ms + expiry_ms
        if after_ms > limit_ms and hold.end_ms - hold.begin_ms > limit_ms:
            yield f"I12: {hold.broker_id} was dead and kept its session for {after_ms} ms"
