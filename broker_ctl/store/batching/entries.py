"""A request between its caller and its batch."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from broker_ctl.errors import MultiFailed, StoreError
from broker_ctl.store.batching.sizes import Kind
from broker_ctl.store.interface import (
    Aspect,
    Check,
    Create,
    Delete,
    Operation,
    Outcome,
    Read,
    SetData,
)

# Bytes of one operation on the wire besides path and data: header, lengths, version, access control
# list.
OVERHEAD_BYTES: Final = 64

# Only writes with the same value share a batch: writes of ephemeral nodes fail with their session
# and others do not, and the checks of a transaction guard that transaction alone.
Compatibility = tuple[tuple[Check, ...], bool]


class Entry:
    """One request: it waits for its turn on its paths, then for its batch, then for its answer.

    Attributes:
        future: settled once, with the answer or the error that the caller gets.
        made_s: when, on the clock of the store.
        size_bytes: its share of the request, or of the reply if that is larger.
        weight: operations that it has.
        turns: number of paths on which other entries are ahead of it.
        put: queues it in the lane of its class, once it has its turn on all its paths.
    """

    __slots__ = ()

    future: "asyncio.Future[Any]"
    made_s: float
    size_bytes: float
    weight: int
    turns: int
    put: Callable[[Any], None]

    def fail(self, error: StoreError) -> None:
        """Fail with a copy of the error.

        One instance raised in many tasks would collect the tracebacks of all of them.
        """
        if not self.future.done():
            self.future.set_exception(_copy(error))


class ReadEntry(Read, Entry):
    """A read; it shares its path.

    Attributes:
        kind: what is known of the sizes of nodes like this one.
    """

    __slots__ = ("future", "kind", "made_s", "put", "size_bytes", "turns")

    weight = 1
    alone: Sequence[str] = ()
    kind: Kind

    def __init__(
        self,
        path: str,
        aspect: Aspect,
        future: "asyncio.Future[Any]",
        made_s: float,
        put: Callable[["ReadEntry"], None],
    ) -> None:
        self.path = path
        self.aspect = aspect
        self.future = future
        self.made_s = made_s
        self.put = put

    @property
    def shared(self) -> Sequence[str]:
        """See `Claimant`."""
        return (self.path,)

    @property
    def claims(self) -> Sequence[str]:
        """All its paths."""
        return (self.path,)


class WriteEntry(Entry):
    """A write, or a transaction, which is never divided.

    Attributes:
        compatibility: it shares a batch only with entries of an equal value; None: with no other
            entry.
        makes_parents: whether missing parents of the nodes that it creates are created too.
        is_answered: whether its outcome is known, even if the caller does not have it yet.
    """

    __slots__ = (
        "alone",
        "compatibility",
        "future",
        "has_shared_checks",
        "is_answered",
        "is_single",
        "made_s",
        "makes_parents",
        "operations",
        "put",
        "shared",
        "size_bytes",
        "turns",
        "weight",
    )

    alone: Sequence[str]
    shared: Sequence[str]

    def __init__(
        self,
        operations: Sequence[Operation],
        future: "asyncio.Future[Any]",
        made_s: float,
        put: Callable[["WriteEntry"], None],
        *,
        is_transaction: bool = False,
    ) -> None:
        self.operations = operations
        self.weight = len(operations)
        self.future = future
        self.made_s = made_s
        self.put = put
        self.makes_parents = self.is_answered = self.has_shared_checks = False
        self.is_single = not is_transaction
        self.compatibility: Compatibility | None
        if self.is_single:
            self._single(operations[0])
        else:
            self._several(operations)

    @property
    def claims(self) -> Sequence[str]:
        """All its paths."""
        return (*self.alone, *self.shared) if self.shared else self.alone

    def _single(self, operation: Operation) -> None:
        self.alone, self.shared, self.compatibility = (operation.path,), (), _PLAIN
        size = OVERHEAD_BYTES + len(operation.path)
        if isinstance(operation, SetData):
            size += len(operation.data)
        elif isinstance(operation, Create):
            size += len(operation.data)
            if operation.mode.is_sequential:
                # The server completes the name: the entry claims no path, and if the reply is lost
                # the node has to be found by its mark.
                self.alone, self.compatibility = (), None
            elif operation.mode.is_ephemeral:
                self.compatibility = _EPHEMERAL
        self.size_bytes = size

    def _several(self, operations: Sequence[Operation]) -> None:
        checks = [op for op in operations if isinstance(op, Check)]
        changes = [op for op in operations if not isinstance(op, Check)]
        own = [op.path for op in changes if not (isinstance(op, Create) and op.mode.is_sequential)]
        alone = dict.fromkeys(own)
        checked = dict.fromkeys(check.path for check in checks)
        self.alone = tuple(alone)
        self.shared = tuple(path for path in checked if path not in alone)
        makes_ephemerals = any(isinstance(op, Create) and op.mode.is_ephemeral for op in changes)
        # A check can move to the head of the batch only if the batch does not change its node, and
        # only if it is first in this transaction too: otherwise another operation would fail first.
        distinct = tuple(dict.fromkeys(checks))
        is_sociable = (
            len(self.shared) == len(distinct)
            and list(operations[: len(checks)]) == checks
            and 0 < len(own) == len(changes)
        )
        self.compatibility = (distinct, makes_ephemerals) if is_sociable else None
        self.has_shared_checks = bool(checks and is_sociable)
        self.size_bytes = sum(_size(operation) for operation in operations)

    @property
    def changes(self) -> Sequence[Operation]:
        """Its operations without the checks that stand at the head of its batch."""
        if not self.has_shared_checks:
            return self.operations
        return [op for op in self.operations if not isinstance(op, Check)]

    @property
    def is_deletion(self) -> bool:
        """Whether it deletes one node."""
        return self.is_single and isinstance(self.operations[0], Delete)

    @property
    def written_bytes(self) -> int:
        """Size of the values that it writes."""
        return sum(
            len(operation.data)
            for operation in self.operations
            if isinstance(operation, SetData | Create)
        )

    def succeed(self, outcomes: Sequence[Outcome]) -> None:
        """Succeed with the outcomes of `changes`."""
        if self.future.done():
            return
        for outcome in outcomes:
            if isinstance(outcome, StoreError):
                self.fail(outcome)
                return
        if self.is_single:
            self.future.set_result(outcomes[0])
        elif not self.has_shared_checks:
            self.future.set_result(tuple(outcomes))
        else:
            results = iter(outcomes)
            self.future.set_result(
                tuple(None if isinstance(op, Check) else next(results) for op in self.operations)
            )

    def refusal(self, index: int, cause: StoreError) -> StoreError:
        """Error for its caller when the operation at ``index`` was refused."""
        if self.is_single:
            return cause
        return MultiFailed(index, self.operations[index].path, _copy(cause))


_PLAIN: Final[Compatibility] = ((), False)
_EPHEMERAL: Final[Compatibility] = ((), True)


def _size(operation: Operation) -> int:
    data = operation.data if isinstance(operation, Create | SetData) else b""
    return OVERHEAD_BYTES + len(operation.path) + len(data)


def _copy(error: StoreError) -> StoreError:
    copied = error.__class__.__new__(error.__class__, *error.args)
    copied.args = error.args
    copied.__dict__.update(error.__dict__)
    copied.__cause__ = error.__cause__
    return copied
