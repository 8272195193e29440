"""Access control lists: as values, and the requests that read and replace them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from aiozk import protocol
from aiozk.protocol.acl import ACL
from aiozk.protocol.primitives import Vector

from broker_ctl.store.zookeeper import wire

ALL_PERMISSIONS: Final = 31
_LETTERS: Final = ((1, "r"), (2, "w"), (4, "c"), (8, "d"), (16, "a"))
_LIST: Final = Vector.of(ACL)
_WORLD: Final = "world"


@dataclass(frozen=True, slots=True)
class AclEntry:
    """One entry.

    ``permissions`` are ZooKeeper's bits: read 1, write 2, create 4, delete 8, admin 16.
    """

    scheme: str
    id: str
    permissions: int = ALL_PERMISSIONS

    @classmethod
    def parse(cls, text: str) -> Self:
        """``scheme:id``, such as ``sasl:monitor`` or ``x509:CN=monitor``; may read.

        Raises:
            ValueError: there is no scheme, or no id.
        """
        scheme, _, who = text.strip().partition(":")
        if not scheme or not who:
            raise ValueError(f"{text!r} is not scheme:id, such as sasl:monitor")
        return cls(scheme, who, 1)

    @property
    def is_everybody(self) -> bool:
        """Whether it is for all clients, with and without an identity."""
        return self.scheme == _WORLD

    def __str__(self) -> str:
        letters = "".join(letter for bit, letter in _LETTERS if self.permissions & bit)
        return f"{self.scheme}:{self.id}:{letters}"


def get_acl(path: str, root: str = "") -> wire.Call[tuple[AclEntry, ...]]:
    """The access control list of a node."""

    def decode(data: bytes, offset: int) -> tuple[AclEntry, ...]:
        entries, _ = _LIST.parse(data, offset)
        return tuple(AclEntry(entry.id.scheme, entry.id.id, entry.perms) for entry in entries)

    record = protocol.GetACLRequest(path=wire.full(path, root))
    return wire.Call("getACL", path, record, decode)


def set_acl(path: str, acl: Sequence[ACL], root: str = "") -> wire.Call[None]:
    """Replace the list of a node; sent again, the request changes nothing more."""
    record = protocol.SetACLRequest(path=wire.full(path, root), acl=list(acl), version=-1)
    return wire.Call("setACL", path, record, lambda _data, _offset: None)
