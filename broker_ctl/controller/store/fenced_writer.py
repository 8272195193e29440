"""Writes of one term: each is guarded by a check of the epoch (docs: kafka-fencing).

A refused check ends the term: another controller was elected, and this one must not write any
more.
"""

from collections.abc import Callable, Sequence
from typing import Final

from broker_ctl.coordination.election import Leadership
from broker_ctl.errors import (
    Ambiguous,
    AuthorityLost,
    Fenced,
    MultiFailed,
    SessionError,
    StoreError,
)
from broker_ctl.store.interface import MetadataStore, Operation, Result, Stat, Versioned

# Called with the zxid of each own transaction.
OnWritten = Callable[[int], None]

_ENDED: Final = (Fenced, AuthorityLost, SessionError)


def ends_term(error: BaseException) -> bool:
    """Whether this controller may do nothing more under its epoch."""
    return isinstance(error, _ENDED)


class FencedWrites:
    """All writes of a controller go through here."""

    def __init__(self, store: MetadataStore, leadership: Leadership, on_written: OnWritten) -> None:
        self._store = store
        self._leadership = leadership
        self._on_written = on_written

    async def write(self, operations: Sequence[Operation]) -> tuple[Result, ...]:
        """Write all operations or none, checking the epoch; returns their results.

        During a disconnection it waits, since another controller may be elected meanwhile.

        Raises:
            Fenced, AuthorityLost, SessionError: this broker does not lead any more.
            MultiFailed: names the refused operation; nothing was written.
            Ambiguous: the nodes do not show whether it was written.
        """
        guarded = [self._leadership.guard, *operations]
        while True:
            await self._leadership.wait_deciding()
            try:
                results = await self._store.multi(guarded)
            except MultiFailed as error:
                if error.index == 0:
                    raise Fenced(f"epoch {self._leadership.epoch} is over: {error.cause}") from None
                raise MultiFailed(error.index - 1, error.path, error.cause) from None
            except Ambiguous:
                raise
            except StoreError as error:
                if not error.can_retry:
                    raise
                # It was not executed: the connection is lost, and the next attempt waits for it.
            else:
                self._report(results)
                return results[1:]

    def _report(self, results: Sequence[Result]) -> None:
        for result in results:
            if isinstance(result, Stat):
                return self._on_written(result.mzxid)
            if isinstance(result, Versioned):
                return self._on_written(result.stat.mzxid)
        return None
