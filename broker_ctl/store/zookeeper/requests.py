"""Requests until they are answered: reads are asked again, lost writes are found out about.

A write is never sent twice without knowing that the first one was not applied (I4).
"""

import asyncio
from collections.abc import Sequence
from typing import Final, TypeVar

from aiozk.protocol.acl import ACL

from broker_ctl import errors
from broker_ctl.store.interface import (
    Check,
    Create,
    Delete,
    Operation,
    Result,
    SetData,
    Versioned,
)
from broker_ctl.store.path_rules import parent_of
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.resolve import (
    Sender,
    Verdict,
    is_numbered,
    judge,
    mark_of,
    results,
)
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
                return await self._session.call(call, end_s - loop.time())
            except (errors.Throttled, errors.ConnectionLoss, errors.SessionExpired) as error:
                await _before_next(error, end_s)

    async def write(self, operation: Create | SetData | Delete) -> Result:
        """One operation.

        Raises:
            SessionExpired: not done; for an ephemeral node: or done and gone with its session.
            Ambiguous: the node does not tell whether it was done, or with what result.
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
            try:
                return await self._session.call(call, end_s - loop.time())
            except (errors.Throttled, errors.ConnectionLoss) as error:  # it was not done
                await _before_next(error, end_s)
            except errors.Ambiguous as lost:
                found = await self._find_out(operations, lost, end_s)
                if found is not None:
                    return found
                await _before_next(errors.ConnectionLoss(f"{lost}; it was not done"), end_s)

    async def _find_out(
        self,
        operations: Sequence[Operation],
        lost: errors.Ambiguous,
        end_s: float,
    ) -> tuple[Result, ...] | None:
        """The results if it was applied, None if it was not and may be sent again."""
        if asyncio.get_running_loop().time() >= end_s:
            raise lost
        try:
            async with asyncio.timeout_at(end_s):
                operations = await self._located(operations)
                nodes = await self._nodes(operations)
        except (TimeoutError, errors.StoreError) as error:
            # No error of these reads is an answer to the write.
            raise lost from error
        verdict = judge(operations, nodes, Sender(lost.session_id, lost.zxid_before))
        # Only now: while the nodes were read the session may have ended, and what it owned.
        if self._session.session_id != lost.session_id and (
            verdict is Verdict.NOT_APPLIED or any(_is_ephemeral(op) for op in operations)
        ):
            raise errors.SessionExpired(f"{lost}; its session is gone") from lost
        if verdict is Verdict.NOT_APPLIED:
            return None
        answer = results(operations, nodes) if verdict is Verdict.APPLIED else None
        if answer is None:
            raise lost
        return answer

    async def _located(self, operations: Sequence[Operation]) -> Sequence[Operation]:
        """The operations with their real paths, where the server numbered a marked node."""
        first = operations[0]
        if len(operations) > 1 or not isinstance(first, Create) or not first.mode.is_sequential:
            return operations
        mark = mark_of(first.path)
        if mark is None:
            raise errors.StoreError(f"{first.path} cannot be told from its like")
        parent = parent_of(first.path)
        await self.read(wire.sync(parent))
        for name in await self.read(wire.children(parent)):
            if name.startswith(mark):
                path = f"{parent.rstrip('/')}/{name}"
                return [Create(path, first.data, first.mode, first.ttl_ms)]
        return operations

    async def _nodes(self, operations: Sequence[Operation]) -> dict[str, Versioned | None]:
        """The nodes that the operations are about, all read at one moment."""
        several = len(operations) > 1
        paths = list(
            dict.fromkeys(
                op.path
                for op in operations
                if not (isinstance(op, Check) or (several and is_numbered(op)))
            ),
        )
        if not paths:
            return {}
        await self.read(wire.sync(paths[0]))
        found = await self.read(wire.multi_read(paths))
        return dict(zip(paths, found, strict=True))


def _is_ephemeral(operation: Operation) -> bool:
    return isinstance(operation, Create) and operation.mode.is_ephemeral


async def _before_next(error: errors.StoreError, end_s: float) -> None:
    """Wait as long as the server needs; raise ``error`` where no time is left to try again."""
    pause_s = _THROTTLE_PAUSE_S if isinstance(error, errors.Throttled) else 0.0
    if asyncio.get_running_loop().time() + pause_s >= end_s:
        raise error
    if pause_s:
        await asyncio.sleep(pause_s)
