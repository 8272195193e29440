"""Commands of the leader to brokers (docs: move, split-and-merge).

A command carries the epoch of its leader and is executed only at the newest epoch seen; its
transaction checks that epoch again (I3). Commands of a move also carry the version of its record:
each write of the record invalidates earlier commands. All commands are idempotent: repeating an
executed one returns the same answer.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import InvalidName

# The response to a command: plain JSON values.
Reply = Mapping[str, Any]


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value:
        raise InvalidName(f"order: {key} must be a text, not {value!r}")
    return value


def _integer(row: Mapping[str, Any], key: str) -> int:
    value = row.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidName(f"order: {key} must be a whole number, not {value!r}")
    return value


@dataclass(frozen=True, slots=True)
class MoveCommand:
    """Common fields of the commands of a move.

    Attributes:
        version: node version of the move's record when the leader sent the command.
    """

    verb: ClassVar[str]
    epoch: int
    bundle: Bundle
    move_id: str
    version: int

    @classmethod
    def parse(cls, row: Mapping[str, Any]) -> Self:
        """Read the plain form."""
        bundle = Bundle.parse(_text(row, "bundle"))
        return cls(_integer(row, "epoch"), bundle, _text(row, "move"), _integer(row, "version"))

    def to_row(self) -> dict[str, Any]:
        """The plain form."""
        return {
            "epoch": self.epoch,
            "bundle": str(self.bundle),
            "move": self.move_id,
            "version": self.version,
        }


@dataclass(frozen=True, slots=True)
class PrepareTransfer(MoveCommand):
    """To the receiver of a move: ask whether it is ready to acquire the bundle."""

    verb: ClassVar[str] = "prepare"


@dataclass(frozen=True, slots=True)
class ReleaseBundle(MoveCommand):
    """To the source of a move: stop serving, confirm, and release the bundle.

    Attributes:
        token: fencing token of the ownership to end; a later ownership is not affected.
        unload_ms: timeout for the data plane to close the topics.
    """

    verb: ClassVar[str] = "release"
    token: int
    unload_ms: int

    @classmethod
    def parse(cls, row: Mapping[str, Any]) -> Self:
        """Read the plain form."""
        order = MoveCommand.parse(row)
        return cls(
            order.epoch,
            order.bundle,
            order.move_id,
            order.version,
            _integer(row, "token"),
            _integer(row, "unload_ms"),
        )

    def to_row(self) -> dict[str, Any]:
        """The plain form."""
        return {
            **MoveCommand.to_row(self),
            "token": self.token,
            "unload_ms": self.unload_ms,
        }


@dataclass(frozen=True, slots=True)
class ReceiveBundle(MoveCommand):
    """To the receiver of a move: the source has released; acquire the bundle and end the move."""

    verb: ClassVar[str] = "receive"


@dataclass(frozen=True, slots=True)
class AcquireBundle:
    """To the broker that placement chose: acquire a bundle that has no owner."""

    verb: ClassVar[str] = "acquire"
    epoch: int
    bundle: Bundle

    @classmethod
    def parse(cls, row: Mapping[str, Any]) -> Self:
        """Read the plain form."""
        return cls(_integer(row, "epoch"), Bundle.parse(_text(row, "bundle")))

    def to_row(self) -> dict[str, Any]:
        """The plain form."""
        return {"epoch": self.epoch, "bundle": str(self.bundle)}


@dataclass(frozen=True, slots=True)
class SplitBundle:
    """To the owner: split the bundle.

    Attributes:
        algorithm: name of the split algorithm, which the owner applies to its topics.
        boundaries: ring positions at which to split; empty: the algorithm chooses them.
    """

    verb: ClassVar[str] = "split"
    epoch: int
    bundle: Bundle
    algorithm: str
    boundaries: tuple[int, ...] = ()

    @classmethod
    def parse(cls, row: Mapping[str, Any]) -> Self:
        """Read the plain form."""
        boundaries = row.get("boundaries", [])
        if not isinstance(boundaries, list) or not all(isinstance(b, int) for b in boundaries):
            raise InvalidName("order: boundaries must be a list of whole numbers")
        return cls(
            _integer(row, "epoch"),
            Bundle.parse(_text(row, "bundle")),
            _text(row, "algorithm"),
            tuple(boundaries),
        )

    def to_row(self) -> dict[str, Any]:
        """The plain form."""
        return {
            "epoch": self.epoch,
            "bundle": str(self.bundle),
            "algorithm": self.algorithm,
            "boundaries": list(self.boundaries),
        }


@dataclass(frozen=True, slots=True)
class MergeBundles:
    """To the owner of both: merge two adjacent bundles, ``left`` is the lower one."""

    verb: ClassVar[str] = "merge"
    epoch: int
    left: Bundle
    right: Bundle

    @classmethod
    def parse(cls, row: Mapping[str, Any]) -> Self:
        """Read the plain form."""
        left, right = Bundle.parse(_text(row, "left")), Bundle.parse(_text(row, "right"))
        return cls(_integer(row, "epoch"), left, right)

    def to_row(self) -> dict[str, Any]:
        """The plain form."""
        return {"epoch": self.epoch, "left": str(self.left), "right": str(self.right)}


Command = (
    PrepareTransfer | ReleaseBundle | ReceiveBundle | AcquireBundle | SplitBundle | MergeBundles
)
_KINDS: Mapping[
    str,
    type[PrepareTransfer]
    | type[ReleaseBundle]
    | type[ReceiveBundle]
    | type[AcquireBundle]
    | type[SplitBundle]
    | type[MergeBundles],
] = {
    kind.verb: kind
    for kind in (
        PrepareTransfer,
        ReleaseBundle,
        ReceiveBundle,
        AcquireBundle,
        SplitBundle,
        MergeBundles,
    )
}


def parse_order(verb: str, row: Mapping[str, Any]) -> Command:
    """Parse a command of any kind.

    Raises:
        InvalidName: the verb is unknown, or a field is not valid.
    """
    kind = _KINDS.get(verb)
    if kind is None:
        raise InvalidName(f"unknown order {verb!r}: {', '.join(_KINDS)}")
    return kind.parse(row)


# Executes a command, as `BundleCommandHandler.handle` does.
HandleCommand = Callable[[Command], Awaitable[Reply]]
