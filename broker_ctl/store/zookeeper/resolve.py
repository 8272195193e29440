"""Resolves a write whose reply was lost from the nodes that it would have changed.

Pure rules (docs: ambiguous-writes). The caller has waited until it is connected again, has synced,
and then read; within one session no earlier write can be applied after that read. A rule never
guesses: where the nodes do not decide, the verdict is UNKNOWN. A change that is older than the
newest zxid that the sender had observed is not the sender's, whatever its data.

An ephemeral node names its session. A persistent node is recognized by its data. If two clients
created the same node with the same data at once, both verdicts are APPLIED, and both are right: the
node that each asked for exists, and was created after each asked. A client that must be the only
creator makes the node ephemeral, or writes a unique id into it. A sequential node proves nothing,
since its name was in the lost reply.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from typing import Final

from broker_ctl.store.interface import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Operation,
    Result,
    SetData,
    Versioned,
)


class WriteVerdict(Enum):
    """Whether a write was applied."""

    APPLIED = auto()
    NOT_APPLIED = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class WriteSender:
    """The sender of the write.

    Its session then, and the newest zxid that it had observed before.
    """

    session_id: int
    zxid_before: int


def is_numbered(operation: Operation) -> bool:
    """Whether the server completes the path, so that the operation does not contain it."""
    return isinstance(operation, Create) and operation.mode.is_sequential


def judge(
    operations: Sequence[Operation],
    nodes: Mapping[str, Versioned | None],
    sender: WriteSender,
) -> WriteVerdict:
    """Whether ``operations``, sent as one, were applied, seen from their nodes as they are now."""
    if len(operations) == 1:
        if is_numbered(operations[0]):
            return WriteVerdict.UNKNOWN
        return _judge_one(operations[0], nodes.get(operations[0].path), sender)
    if all(isinstance(operation, Check) for operation in operations):
        return WriteVerdict.NOT_APPLIED
    # Of several operations on one path only the last one is visible.
    last = {
        operation.path: operation
        for operation in operations
        if not (isinstance(operation, Check) or is_numbered(operation))
    }
    if last and all(isinstance(operation, Delete) for operation in last.values()):
        verdicts = {_judge_delete(nodes.get(path), sender) for path in last}
        if WriteVerdict.NOT_APPLIED in verdicts:
            return WriteVerdict.NOT_APPLIED
        return WriteVerdict.UNKNOWN if WriteVerdict.UNKNOWN in verdicts else WriteVerdict.APPLIED
    evidence = [_evidence(operation, nodes.get(path), sender) for path, operation in last.items()]
    return _VERDICTS[min(evidence, default=_Evidence.DOUBT)]


def results(
    operations: Sequence[Operation],
    nodes: Mapping[str, Versioned | None],
) -> list[Result | WriteVerdict]:
    """What the lost reply to applied operations said; UNKNOWN where a node does not show it now.

    A later Stat must never pass for the operation's own: its version would let the caller write
    over a change that he has not seen. Of all the nodes' zxids the transaction's is the smallest.
    """
    wrote = [op.path for op in operations if isinstance(op, Create | SetData)]
    zxids = [node.stat.mzxid for path in wrote if (node := nodes.get(path)) is not None]
    zxid, times = min(zxids, default=0), Counter(wrote)
    return [
        None
        if isinstance(operation, Check | Delete)
        else _result(operation, nodes.get(operation.path), zxid)
        if times[operation.path] == 1
        else WriteVerdict.UNKNOWN
        for operation in operations
    ]


def _result(
    operation: Create | SetData, node: Versioned | None, zxid: int
) -> Result | WriteVerdict:
    if node is None or node.stat.mzxid != zxid or node.data != operation.data:
        return WriteVerdict.UNKNOWN
    if isinstance(operation, Create):
        return node if node.stat.version == 0 else WriteVerdict.UNKNOWN
    is_own = operation.version in {ANY_VERSION, node.stat.version - 1}
    return node.stat if is_own else WriteVerdict.UNKNOWN


class _Evidence(IntEnum):
    """What one operation proves about its transaction; the smaller value prevails.

    REFUTED: the node was not touched. PROVEN: it bears the mark of this write. DOUBT: it was
    touched, maybe also by others. SILENT: a created node is not there; it never was, most likely,
    but one that was created may have been deleted since.
    """

    REFUTED = auto()
    PROVEN = auto()
    DOUBT = auto()
    SILENT = auto()


_VERDICTS: Final = {
    _Evidence.REFUTED: WriteVerdict.NOT_APPLIED,
    _Evidence.PROVEN: WriteVerdict.APPLIED,
    _Evidence.DOUBT: WriteVerdict.UNKNOWN,
    _Evidence.SILENT: WriteVerdict.NOT_APPLIED,
}


def _evidence(operation: Operation, found: Versioned | None, sender: WriteSender) -> _Evidence:
    verdict = _judge_one(operation, found, sender)
    if isinstance(operation, Create) and verdict is WriteVerdict.NOT_APPLIED:
        is_old = found is not None and found.stat.czxid <= sender.zxid_before
        return _Evidence.REFUTED if is_old else _Evidence.SILENT
    if verdict is WriteVerdict.UNKNOWN or found is None:
        return _Evidence.DOUBT  # a missing node does not show who deleted it
    return _Evidence.REFUTED if verdict is WriteVerdict.NOT_APPLIED else _Evidence.PROVEN


def _judge_one(operation: Operation, found: Versioned | None, sender: WriteSender) -> WriteVerdict:
    match operation:
        case Create():
            return _judge_create(operation, found, sender)
        case SetData():
            return _judge_set(operation, found, sender)
        case Delete():
            return _judge_delete(found, sender)
        case Check():
            return WriteVerdict.NOT_APPLIED  # a check changes nothing, and may be sent again


def _judge_create(operation: Create, found: Versioned | None, sender: WriteSender) -> WriteVerdict:
    # If the node is not ours, the server answers the retry with NodeExists, which is true.
    if found is None or found.stat.czxid <= sender.zxid_before:
        return WriteVerdict.NOT_APPLIED
    owner = found.stat.ephemeral_owner if found.stat.is_ephemeral else 0
    if owner != (sender.session_id if operation.mode.is_ephemeral else 0):
        return WriteVerdict.NOT_APPLIED
    if found.stat.version:
        return WriteVerdict.UNKNOWN  # overwritten: the data that it was created with is not visible
    return WriteVerdict.APPLIED if found.data == operation.data else WriteVerdict.NOT_APPLIED


def _judge_set(operation: SetData, found: Versioned | None, sender: WriteSender) -> WriteVerdict:
    # The server answers the retry with NoNode or BadVersion where that is true.
    if found is None or found.stat.mzxid <= sender.zxid_before:
        return WriteVerdict.NOT_APPLIED
    if found.stat.czxid > sender.zxid_before:
        return WriteVerdict.UNKNOWN  # another node of the same name: the fate of ours is unknown
    is_equal = found.data == operation.data
    if operation.version == ANY_VERSION:
        return WriteVerdict.APPLIED if is_equal else WriteVerdict.UNKNOWN
    if found.stat.version == operation.version + 1:
        return WriteVerdict.APPLIED if is_equal else WriteVerdict.NOT_APPLIED
    return (
        WriteVerdict.NOT_APPLIED
        if found.stat.version <= operation.version
        else WriteVerdict.UNKNOWN
    )


def _judge_delete(found: Versioned | None, sender: WriteSender) -> WriteVerdict:
    if found is None:
        # The node is absent, as the delete wanted, no matter which client deleted it.
        return WriteVerdict.APPLIED
    # A younger node may have been created after the delete, or may be the one to delete: the sender
    # need not have observed every change before.
    is_old = found.stat.czxid <= sender.zxid_before
    return WriteVerdict.NOT_APPLIED if is_old else WriteVerdict.UNKNOWN
