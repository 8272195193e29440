"""Requests until they are answered: reads are sent again, lost writes are resolved by reading.

A write is never sent again unless it is known that it was not applied (I4).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from aiozk.protocol.acl import ACL

from broker_ctl import errors
from broker_ctl.store.interface import (
    REQUEST_LIMIT_S,
    Answer,
    Aspect,
    Check,
    Create,
    Found,
    Operation,
    Outcome,
    Read,
    Result,
    Versioned,
)
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.resolve import (
    WriteSender,
    WriteVerdict,
    is_numbered,
    judge,
    results,
)
from broker_ctl.store.zookeeper.session import Session

T = TypeVar("T")

# Called with the kind of a write whose reply was lost, and its resolution: applied, not_applied,
# session_expired or unknown.
OnResolved = Callable[[str, str], None]

_THROTTLE_PAUSE_S: Final = 0.1
_MOST_READS: Final = 128
# Errors of a server about one operation; a multi names the operation.
_REFUSALS: Final = (
    errors.NoNode,
    errors.NodeExists,
    errors.BadVersion,
    errors.NotEmpty,
    errors.InvalidPath,
    errors.NoAuth,
)
_READS: Final[Mapping[Aspect, Callable[[str, str], wire.Call[Found]]]] = {
    Aspect.NODE: wire.wire_get,
    Aspect.STAT: wire.exists,
    Aspect.CHILDREN: wire.children,
}


class Requests:
    """Sends the requests of a store over its session.

    ``root`` is the chroot: paths here are the store's.
    """

    def __init__(
        self,
        session: Session,
        timeout_s: float,
        acl: Sequence[ACL],
        root: str = "",
        on_resolved: OnResolved | None = None,
    ) -> None:
        self._session = session
        self._timeout_s = timeout_s
        self._acl = wire.pack_acl(acl)
        self._root = root
        self._on_resolved = on_resolved
        # Number of reads in one request while the sizes of the nodes are unknown.
        self.most_reads = _MOST_READS

    def deadline_s(self) -> float:
        """When a request that is made now must have ended."""
        limit_s = min(self._timeout_s, REQUEST_LIMIT_S.get())
        return asyncio.get_running_loop().time() + limit_s

    async def read(
        self, call: wire.Call[T], deadline_s: float | None = None, place: int | None = None
    ) -> T:
        """Send a read, and repeat it until the deadline."""
        loop = asyncio.get_running_loop()
        end_s = self.deadline_s() if deadline_s is None else deadline_s
        place = self._session.next_place() if place is None else place
        while True:
            try:
                return await self._session.call(call, end_s - loop.time(), place)
            except (errors.Throttled, errors.ConnectionLoss, errors.SessionExpired) as error:
                await _before_next(error, end_s)

    async def read_many(
        self, reads: Sequence[Read], deadline_s: float, place: int | None = None
    ) -> list[Answer]:
        """See `BulkStore.read_many`."""
        place = self._session.next_place() if place is None else place
        if len(reads) == 1:
            return [await self._read_one(reads[0], deadline_s, place)]
        try:
            return await self.read(wire.wire_multi_read(reads, self._root), deadline_s, place)
        except errors.TooLarge:
            # The reply has cost a connection, so the size is remembered. Both halves keep the place
            # of the whole, ahead of the later requests that are sent again.
            middle = len(reads) // 2
            self.most_reads = min(self.most_reads, middle)
            async with asyncio.TaskGroup() as halves:
                first = halves.create_task(self.read_many(reads[:middle], deadline_s, place))
                second = halves.create_task(self.read_many(reads[middle:], deadline_s, place))
            return first.result() + second.result()
        except errors.StoreError as error:
            return [error] * len(reads)

    async def _read_one(self, read: Read, deadline_s: float, place: int) -> Answer:
        call = _READS[read.aspect](read.path, self._root)
        try:
            return await self.read(call, deadline_s, place)
        except errors.NoNode:
            return [] if read.aspect is Aspect.CHILDREN else None
        except errors.StoreError as error:
            return error  # this node is the one that is too large, not its neighbours

    async def write(self, operation: Operation) -> Result:
        """One operation.

        Raises:
            SessionExpired: not applied; or an ephemeral node, which is gone with its session if it
                was.
            Ambiguous: the node does not show whether the write was applied, or with what result.
        """
        try:
            (result,) = await self.multi([operation])
        except errors.MultiFailed as failed:
            raise failed.cause from None
        return result

    async def multi(self, operations: Sequence[Operation]) -> tuple[Result, ...]:
        """All or none; raises as `write`, and `MultiFailed`."""
        answer: list[Result] = []
        for outcome in await self.write_many(operations, self.deadline_s()):
            if isinstance(outcome, errors.Ambiguous):
                raise outcome
            answer.append(outcome)
        return tuple(answer)

    async def write_many(
        self, operations: Sequence[Operation], deadline_s: float
    ) -> tuple[Outcome, ...]:
        """See `BulkStore.write_many`."""
        if len(operations) > 1 or isinstance(operations[0], Check):
            call = wire.wire_multi(operations, self._acl, self._root)
            return await self._settle(operations, call, deadline_s)
        call = wire.wire_write(operations[0], self._acl, self._root)
        try:
            return await self._settle(operations, call, deadline_s)
        except _REFUSALS as error:
            raise errors.MultiFailed(0, operations[0].path, error) from None

    async def _settle(
        self, operations: Sequence[Operation], call: wire.Call[tuple[Result, ...]], end_s: float
    ) -> tuple[Outcome, ...]:
        loop = asyncio.get_running_loop()
        while True:
            try:
                return await self._session.call(call, end_s - loop.time())
            except (errors.Throttled, errors.ConnectionLoss) as error:  # it was not done
                await _before_next(error, end_s)
            except errors.Ambiguous as lost:
                found = await self._resolve(call.what, operations, lost, end_s)
                if found is not None:
                    return found
                # This suffices to send the write again, but does not prove that it was not applied:
                # a deposed leader may have answered the sync before the read.
                await _before_next(lost, end_s)

    async def _resolve(
        self, what: str, operations: Sequence[Operation], lost: errors.Ambiguous, end_s: float
    ) -> tuple[Outcome, ...] | None:
        """Call `_find_out`, and report the resolution to the metrics."""
        resolution = "unknown"
        try:
            found = await self._find_out(operations, lost, end_s)
        except errors.SessionExpired:
            resolution = "session_expired"
            raise
        else:
            resolution = "not_applied" if found is None else "applied"
            return found
        finally:
            if self._on_resolved is not None:
                self._on_resolved(what, resolution)

    async def _find_out(
        self,
        operations: Sequence[Operation],
        lost: errors.Ambiguous,
        end_s: float,
    ) -> tuple[Outcome, ...] | None:
        """The results if it was applied, None if it was not and may be sent again."""
        if asyncio.get_running_loop().time() >= end_s:
            raise lost
        try:
            async with asyncio.timeout_at(end_s):
                nodes = await self._nodes(operations, end_s)
        except (TimeoutError, errors.StoreError) as error:
            # No error of these reads is an answer to the write.
            raise lost from error
        verdict = judge(operations, nodes, WriteSender(lost.session_id, lost.zxid_before))
        # Check the session only now: it may have expired while the nodes were read, and its
        # ephemerals with it.
        if self._session.session_id != lost.session_id and (
            verdict is WriteVerdict.NOT_APPLIED or any(_is_ephemeral(op) for op in operations)
        ):
            raise errors.SessionExpired(f"{lost}; its session is gone") from lost
        if verdict is WriteVerdict.NOT_APPLIED:
            return None
        if verdict is WriteVerdict.UNKNOWN:
            raise lost
        resolved = results(operations, nodes)
        return tuple(lost if isinstance(result, WriteVerdict) else result for result in resolved)

    async def _nodes(self, operations: Sequence[Operation], end_s: float) -> dict[str, Versioned]:
        """The nodes of the operations, as they are after everything that was sent before."""
        paths = list(
            dict.fromkeys(
                op.path for op in operations if not (isinstance(op, Check) or is_numbered(op))
            ),
        )
        if not paths:
            return {}
        await self.read(wire.sync(paths[0], self._root))
        # Later writes may have made the nodes larger than one reply can be: then several replies
        # carry them, and a later read is just as valid.
        found = await self.read_many([Read(path) for path in paths], end_s)
        for answer in found:
            if isinstance(answer, errors.StoreError):
                raise answer
        return {
            p: node for p, node in zip(paths, found, strict=True) if isinstance(node, Versioned)
        }


def _is_ephemeral(operation: Operation) -> bool:
    return isinstance(operation, Create) and operation.mode.is_ephemeral


async def _before_next(error: errors.StoreError, end_s: float) -> None:
    """Wait as long as the server needs; raise ``error`` where no time is left to try again."""
    pause_s = _THROTTLE_PAUSE_S if isinstance(error, errors.Throttled) else 0.0
    if asyncio.get_running_loop().time() + pause_s >= end_s:
        raise error
    # Yield at least once: all requests that the connection lost are queued again before one is
    # sent.
    await asyncio.sleep(pause_s)
