"""What clients of this project may rely on, one object each."""

from collections.abc import Hashable
from dataclasses import dataclass

from tests.linearizability.checker import Operation

NOBODY = 0


@dataclass(frozen=True, slots=True)
class VersionedNode:
    """A node that is written by version.

    ``("set", version)`` is answered with True, and the version grows by one, or with False. Reads
    are left out: a server may lag.
    """

    initial: int = 0

    def step(self, state: int, operation: Operation) -> Hashable | None:
        (_, version) = operation.wish
        is_done = version == state
        if operation.is_answered and operation.answer is not is_done:
            return None
        return state + 1 if is_done else state


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """The log of a partition.

    ``("append", value)`` is answered with its offset; ``("read", offset)`` with the records from
    there on, up to anywhere: a reader may have been informed of fewer than there are, or of none.
    ``("all", 0)`` is answered with the whole log.
    """

    @property
    def initial(self) -> tuple[object, ...]:
        return ()

    def step(self, state: tuple[object, ...], operation: Operation) -> Hashable | None:
        kind, given = operation.wish
        if kind == "all":
            return state if state == tuple(operation.answer) else None
        if kind == "read":
            end = given + len(operation.answer)
            return state if state[given:end] == tuple(operation.answer) else None
        if operation.is_answered and operation.answer != len(state):
            return None
        return (*state, given)


@dataclass(frozen=True, slots=True)
class OwnedHash:
    """A hash of the ring: ``("own", broker)``, ``("act", broker)`` and ``("end", broker)``.

    Nobody gets it before its last owner has ended, and only its owner acts for it.
    """

    initial: int = NOBODY

    def step(self, state: Hashable, operation: Operation) -> Hashable | None:
        kind, broker = operation.wish
        if not operation.is_answered:
            return state
        if kind == "own":
            owner: Hashable = broker
            return owner if state == NOBODY else None
        if state != broker:
            return None
        return NOBODY if kind == "end" else state


@dataclass(frozen=True, slots=True)
class FencedHash:
    """A hash in a storage that refuses old tokens: ``("act", token)``, accepted or refused."""

    initial: int = NOBODY

    def step(self, state: int, operation: Operation) -> Hashable | None:
        token: int = operation.wish[1]
        is_accepted = token >= state
        if operation.is_answered and operation.answer is not is_accepted:
            return None
        return max(state, token)
