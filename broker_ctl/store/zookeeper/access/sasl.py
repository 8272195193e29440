"""SASL DIGEST-MD5 as a client of ZooKeeper.

Sources: RFC 2831, sections 2.1 and 2.2; ZooKeeper's ``SaslServerPrincipal`` and
``SaslServerCallbackHandler``, which name service and realm. The mechanism is historic (RFC 6331),
and the only one of ZooKeeper's that needs no Kerberos: use it over TLS.
"""

import asyncio
import hmac
import re
import secrets
from dataclasses import dataclass
from hashlib import md5
from typing import Final

from aiozk.protocol.primitives import Buffer
from aiozk.protocol.request import Request

from broker_ctl import errors
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.connection import Connection

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
