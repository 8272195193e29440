"""Was it done? What a node tells of a write whose reply was lost.

Pure rules of reference metadata-store 6.7. The caller has waited until it is connected again, has
synced, and then read; on one session nothing that was sent before can be applied after that read.
A rule never guesses: where the node cannot tell, the verdict is UNKNOWN.
"""

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from broker_ctl.store.interface import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Operation,
    SetData,
    Versioned,
)

_PROTECTED = re.compile(r"_c_[0-9a-f]{32}-")


class Verdict(Enum):
    """What became of a write."""

    APPLIED = auto()
    NOT_APPLIED = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sent the write: its session, and the newest zxid it had seen before."""

    session_id: int
    zxid_before: int


def protected(path: str) -> str:
    """``path`` with a random mark in its last name, so that a sequential node can be found again.

    The seed's first rule (ZooKeeper client knowledge base): a GUID in the name.
    """
    parent, _, name = path.rpartition("/")
    return f"{parent}/_c_{uuid.uuid4().hex}-{name}"


def mark_of(path: str) -> str | None:
    """The mark that `protected` put into the last name of ``path``."""
    match = _PROTECTED.match(path.rpartition("/")[2])
    return match[0] if match else None


def judge(operation: Operation, found: Versioned | None, sender: Sender) -> Verdict:
    """Whether ``operation`` was applied, seen from its node as it is now."""
    match operation:
        case Create():
            return _judge_create(operation, found, sender)
        case SetData():
            return _judge_set(operation, found, sender)
        case Delete():
            return _judge_delete(operation, found, sender)
        case Check():
            return Verdict.UNKNOWN


def _judge_create(operation: Create, found: Versioned | None, sender: Sender) -> Verdict:
    if found is None:
        return Verdict.NOT_APPLIED
    is_new = found.stat.czxid > sender.zxid_before
    if operation.mode.is_ephemeral:
        is_mine = found.stat.ephemeral_owner == sender.session_id
        applied = is_new and is_mine and found.data == operation.data
    else:
        # Payloads of persistent creates that must be told apart carry an id of their writer.
        applied = is_new and found.stat.version == 0 and found.data == operation.data
    return Verdict.APPLIED if applied else Verdict.NOT_APPLIED


def _judge_set(operation: SetData, found: Versioned | None, sender: Sender) -> Verdict:
    if found is None:
        return Verdict.NOT_APPLIED  # sending again answers NoNode, which is true
    is_equal = found.data == operation.data
    if operation.version == ANY_VERSION:
        if found.stat.mzxid <= sender.zxid_before:
            return Verdict.NOT_APPLIED
        return Verdict.APPLIED if is_equal else Verdict.UNKNOWN
    if found.stat.version == operation.version + 1:
        # Other data: somebody else won, and sending again answers BadVersion.
        return Verdict.APPLIED if is_equal else Verdict.NOT_APPLIED
    if found.stat.version <= operation.version:
        return Verdict.NOT_APPLIED
    return Verdict.UNKNOWN


def _judge_delete(_operation: Delete, found: Versioned | None, sender: Sender) -> Verdict:
    # Absent is what was wanted, whoever did it; a younger node proves that the old one is gone.
    if found is None or found.stat.czxid > sender.zxid_before:
        return Verdict.APPLIED
    return Verdict.NOT_APPLIED


def telling(operations: Sequence[Operation]) -> Operation | None:
    """The operation of a transaction whose node tells best: it was applied iff all were."""
    candidates: list[tuple[int, Operation]] = []
    for operation in operations:
        match operation:
            case Create(mode=mode) if not mode.is_sequential:
                candidates.append((0 if mode.is_ephemeral else 1, operation))
            case SetData(version=version):
                candidates.append((2 if version != ANY_VERSION else 4, operation))
            case Delete():
                candidates.append((3, operation))
            case _:
                pass
    return min(candidates, key=lambda candidate: candidate[0])[1] if candidates else None
