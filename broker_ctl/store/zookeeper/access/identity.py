"""The identity of this client, which each new connection proves before any other request.

With any identity the nodes that the client creates belong to it: ZooKeeper replaces the scheme
``auth`` by all identities of the connection. Source: ZooKeeper Programmer's Guide, "ZooKeeper
access control using ACLs".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from aiozk import protocol
from aiozk.protocol.acl import ACL

from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.access.acl import AclEntry
from broker_ctl.store.zookeeper.access.sasl import authenticate
from broker_ctl.store.zookeeper.connection import Connection

_READ: Final = 1


class ProvenIdentity(Protocol):
    """What `Identity` does, also where its passwords are replaced at run time."""

    @property
    def is_known(self) -> bool:
        """See `Identity.is_known`."""

    async def prove(self, connection: Connection) -> None:
        """See `Identity.prove`."""

    def listen(self, drop: Callable[[str], None]) -> None:
        """See `Identity.listen`."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Credentials; several may be given at once.

    Attributes:
        digests: each ``user:password`` for the scheme ``digest``; nodes belong to all of them.
        sasl: ``user:password`` for SASL DIGEST-MD5, or empty.
        has_certificate: whether the TLS context presents a client certificate (``x509``).
    """

    digests: Sequence[bytes] = field(default=(), repr=False)
    sasl: bytes = field(default=b"", repr=False)
    has_certificate: bool = False

    @property
    def is_known(self) -> bool:
        """Whether there is any identity."""
        return bool(self.digests or self.sasl or self.has_certificate)

    def listen(self, drop: Callable[[str], None]) -> None:
        """Have ``drop`` called, with the reason, when a connection has to prove something else.

        This one never changes.
        """

    async def prove(self, connection: Connection) -> None:
        """Send the credentials; the certificate was presented in the handshake.

        Raises:
            AuthFailed: the server refuses them.
        """
        if self.sasl:
            await authenticate(connection, self.sasl)
        for digest in self.digests:
            await connection.send_special(wire.XID_AUTH, wire.auth_digest(digest))


ANONYMOUS: Final = Identity()


@dataclass(frozen=True, slots=True)
class NodeAccess:
    """The access control list of created nodes.

    Attributes:
        is_restricted: only this client's identity may use them; otherwise everybody may.
        readers: identities that may read restricted nodes, too.
    """

    is_restricted: bool = False
    readers: Sequence[AclEntry] = ()

    @property
    def acl(self) -> list[ACL]:
        """As it is sent to the servers."""
        if not self.is_restricted:
            return [protocol.UNRESTRICTED_ACCESS]
        readers = [ACL.make(one.scheme, one.id, read=True) for one in self.readers]
        return [protocol.AUTHED_UNRESTRICTED, *readers]

    def opens(self, acl: Sequence[AclEntry]) -> bool:
        """Whether a node with this list is open to clients without an identity.

        Anonymous reading is meant if everybody is among the readers.
        """
        meant = _READ if any(one.is_everybody for one in self.readers) else 0
        return any(one.is_everybody and one.permissions & ~meant for one in acl)
