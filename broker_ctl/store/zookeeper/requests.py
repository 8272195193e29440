"""Requests until they are answered: reads are asked again, lost writes are found out about.

A write is never sent twice without knowing that the first one was not applied (I4).
"""

import asyncio
from collections.abc import Sequence
from typing import Final, TypeVar

from aiozk.protocol.acl import ACL

from broker_ctl import errors
from broker_ctl.store.interface import Create, Delete, Operation, Result, SetData, Versioned
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.resolve import Sender, Verdict, judge, mark_of, telling
from broker_ctl.store.zookeeper.session import Session

T = TypeVar("T")

_THROTTLE_PAUSE_S: Final = 0.1


class Requests:
    """What a store asks of its session. All paths are the server's own, chroot included."""

    def __init__(self, session: Session, timeout_s: float, acl: Sequence[ACL]) -> None:
        self._session = session
        self._timeout_s = timeout_s
        self._acl = acl

    async def read(self, call: wire.Call[T]) -> T:
        """Ask, as often as it takes, until the deadline."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._timeout_s
        while True:
            try:
                return await self._session.call(call, max(end_s - loop.time(), 0.0))
            except errors.Throttled:
                await asyncio.sleep(_THROTTLE_PAUSE_S)
            except (errors.ConnectionLoss, errors.SessionExpired):
                if loop.time() >= end_s:
                    raise

    async def write(self, operation: Create | SetData | Delete) -> Result:
        """One operation.

        Raises:
            SessionExpired: not done; for an ephemeral node: or done and gone with its session.
            Ambiguous: the node does not tell whether it was done.
        """
        call: wire.Call[Result]
        match operation:
            case Create():
                call = wire.create(operation, self._acl)
            case SetData():
                call = wire.set_data(operation)
            case Delete():
                call = wire.delete(operation)
        answer = await self._settle([operation], call)
        return answer[0] if isinstance(answer, tuple) else answer

    async def multi(self, operations: Sequence[Operation]) -> tuple[Result, ...]:
        """All or none; raises as `write`, and `MultiFailed`."""
        return await self._settle(operations, wire.multi(operations, self._acl))

    async def _settle(
        self,
        operations: Sequence[Operation],
        call: wire.Call[T],
    ) -> T | tuple[Result, ...]:
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._timeout_s
        while True:
            sender = Sender(self._session.session_id, self._session.last_zxid)
            try:
                return await self._session.call(call, max(end_s - loop.time(), 0.0))
            except errors.Throttled:
                await asyncio.sleep(_THROTTLE_PAUSE_S)
            except errors.ConnectionLoss:  # it was not sent
                if loop.time() >= end_s:
                    raise
            except errors.Ambiguous as lost:
                results = await self._find_out(operations, sender, lost, end_s - loop.time())
                if results is not None:
                    return results

    async def _find_out(
        self,
        operations: Sequence[Operation],
        sender: Sender,
        lost: errors.Ambiguous,
        limit_s: float,
    ) -> tuple[Result, ...] | None:
        """The results if it was applied, None if it was not."""
        unknown = errors.Ambiguous(str(lost), sender.session_id, sender.zxid_before)
        try:
            async with asyncio.timeout(max(limit_s, 0.0)):
                teller = await self._teller(operations)
                if teller is None:
                    raise unknown from lost
                # Meanwhile the session may have ended, and with it what it owned.
                if self._session.session_id != sender.session_id and any(
                    isinstance(op, Create) and op.mode.is_ephemeral for op in operations
                ):
                    raise errors.SessionExpired(f"{lost}; its session is gone") from lost
                verdict = judge(teller, await self._synced(teller.path), sender)
                if verdict is Verdict.NOT_APPLIED:
                    return None
                if verdict is Verdict.UNKNOWN:
                    raise unknown from lost
                if len(operations) == 1:
                    operations = [teller]
                return await self._results(operations, unknown)
        except TimeoutError:
            raise unknown from lost

    async def _teller(self, operations: Sequence[Operation]) -> Operation | None:
        """The operation to look at, with its real path where the server numbered it."""
        await self._session.wait_connected()
        first = operations[0]
        if len(operations) > 1 or not (isinstance(first, Create) and first.mode.is_sequential):
            return telling(operations)
        mark = mark_of(first.path)
        if mark is None:
            return None
        parent = first.path.rpartition("/")[0]
        await self.read(wire.sync(parent or "/"))
        for name in await self.read(wire.children(parent or "/")):
            if name.startswith(mark):
                return Create(f"{parent}/{name}", first.data, first.mode, first.ttl_ms)
        return first

    async def _synced(self, path: str) -> Versioned | None:
        await self.read(wire.sync(path))
        return await self._get(path)

    async def _get(self, path: str) -> Versioned | None:
        try:
            return await self.read(wire.get(path))
        except errors.NoNode:
            return None

    async def _results(
        self,
        operations: Sequence[Operation],
        unknown: errors.Ambiguous,
    ) -> tuple[Result, ...]:
        """What the lost reply would have said, read back."""
        results: list[Result] = []
        for operation in operations:
            if not isinstance(operation, Create | SetData):
                results.append(None)
                continue
            found = await self._get(operation.path)
            if found is None:
                raise unknown
            results.append(found if isinstance(operation, Create) else found.stat)
        return tuple(results)
