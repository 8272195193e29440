"""Access control: lists of nodes, who this client is, and the proof of that."""

import asyncio
import hmac
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from typing import Final, Protocol, Self

from aiozk import protocol
from aiozk.protocol.acl import ACL, ID
from aiozk.protocol.primitives import Buffer, Vector
from aiozk.protocol.request import Request

from broker_ctl import errors
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.connection import Connection

# Access control lists: as values, and the requests that read and replace them.


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

    @property
    def sent(self) -> ACL:
        """As it is sent to the servers."""
        return ACL(perms=self.permissions, id=ID(scheme=self.scheme, id=self.id))

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


# SASL DIGEST-MD5 as a client of ZooKeeper.
#
# Sources: RFC 2831, sections 2.1 and 2.2; ZooKeeper's ``SaslServerPrincipal`` and
# ``SaslServerCallbackHandler``, which name service and realm. The mechanism is historic (RFC
# 6331), and the only one of ZooKeeper's that needs no Kerberos: use it over TLS.


_URI: Final = "zookeeper/zk-sasl-md5"
_COUNT: Final = "00000001"
_QOP: Final = "auth"
_MAX_CHALLENGE_BYTES: Final = 2048
# A directive with a quoted or a plain value.
_DIRECTIVE: Final = re.compile(
    r'\s*([A-Za-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*))\s*(?:,|$)'
)


class _SaslRequest(Request):
    opcode = 102
    parts = (("token", Buffer),)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One exchange: the answer to a challenge, and what the server must then answer."""

    answer: bytes
    expected: str


async def authenticate(connection: Connection, credentials: bytes) -> None:
    """Prove ``user:password``, and have the server prove that it knows the password.

    Raises:
        AuthFailed: the server refuses the credentials, does not know them, or has no SASL.
        ConnectionLoss: it closed the connection.
    """
    challenge = await _send(connection, b"")
    exchange = answer(challenge, credentials, secrets.token_urlsafe(24))
    proof = _directives(await _send(connection, exchange.answer)).get("rspauth", "")
    if not hmac.compare_digest(proof.encode(), exchange.expected.encode()):
        raise errors.AuthFailed("the server did not prove that it knows the password")


async def _send(connection: Connection, token: bytes) -> bytes:
    reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    connection.send(wire.Call("sasl", "", _SaslRequest(token=token), _token), reply)
    return await reply


def _token(data: bytes, offset: int) -> bytes:
    value, _ = Buffer.parse(data, offset)
    return value or b""


def answer(challenge: bytes, credentials: bytes, cnonce: str, uri: str = _URI) -> Exchange:
    """The answer to a server's challenge.

    Raises:
        AuthFailed: the challenge is not one of DIGEST-MD5, or offers nothing that we support.
    """
    offered = _directives(challenge)
    nonce, realm = offered.get("nonce", ""), offered.get("realm", "")
    if not nonce or offered.get("algorithm") != "md5-sess":
        raise errors.AuthFailed("the server offers no SASL DIGEST-MD5")
    if _QOP not in offered.get("qop", _QOP).split(","):
        raise errors.AuthFailed("the server does not offer authentication without encryption")
    user, _, password = credentials.partition(b":")
    # Raw bytes of the first hash, not its hexadecimal form (RFC 2831, 2.1.2.1).
    session = b":".join((_md5(b":".join((user, realm.encode(), password))), *_ascii(nonce, cnonce)))
    key = _md5(session).hex()

    def prove(method: str) -> str:
        target = _md5(f"{method}:{uri}".encode()).hex()
        return _md5(f"{key}:{nonce}:{_COUNT}:{cnonce}:{_QOP}:{target}".encode()).hex()

    fields = (
        ("username", _quoted(user.decode(errors="replace"))),
        ("realm", _quoted(realm)),
        ("nonce", _quoted(nonce)),
        ("cnonce", _quoted(cnonce)),
        ("nc", _COUNT),
        ("qop", _QOP),
        ("digest-uri", _quoted(uri)),
        ("response", prove("AUTHENTICATE")),
        ("charset", "utf-8"),
    )
    return Exchange(",".join(f"{name}={value}" for name, value in fields).encode(), prove(""))


def _ascii(*texts: str) -> tuple[bytes, ...]:
    return tuple(text.encode() for text in texts)


def _md5(data: bytes) -> bytes:
    return md5(data, usedforsecurity=False).digest()


def _quoted(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'


def _directives(challenge: bytes) -> dict[str, str]:
    """The directives of a challenge; empty if it is not one."""
    text, found, position = challenge.decode(errors="replace"), dict[str, str](), 0
    if len(text) > _MAX_CHALLENGE_BYTES:
        return {}
    while position < len(text):
        match = _DIRECTIVE.match(text, position)
        if match is None:
            return {}
        value = match[3] if match[2] is None else re.sub(r"\\(.)", r"\1", match[2])
        found.setdefault(match[1].lower(), value)
        position = match.end()
    return found


# The identity of this client, which each new connection proves before any other request.
#
# With any identity the nodes that the client creates belong to it: ZooKeeper replaces the scheme
# ``auth`` by all identities of the connection. Source: ZooKeeper Programmer's Guide, "ZooKeeper
# access control using ACLs".


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


ANONYMOUS: Final[Identity] = Identity()


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
