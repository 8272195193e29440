"""Signatures of requests among brokers.

A signature is made for one request to one broker: it covers the method, the path with its query,
the body, the time, a nonce, the sender and the receiver. What is captured of one request is of no
use for another one, at another broker, or a second time. The form follows RFC 9421 in what it
covers, and has one header.
"""

import base64
import binascii
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self
from urllib.parse import quote, unquote

from broker_ctl.instruments.clients import BoundInstruments
from broker_ctl.security.cluster_key import SigningKeys

HEADER: Final = "Broker-Ctl-Signature"
# Of the answer to a request that has to name the start of its receiver.
START_HEADER: Final = "Broker-Ctl-Start"
MAX_SKEW_MS: Final = 60_000
# How far the clock of a sender may be ahead.
MAX_AHEAD_MS: Final = 30_000
MAX_NONCES: Final = 100_000
_CONTEXT: Final = "peer-request"
# With the number of fields; the second one names the start of the receiver.
_VERSIONS: Final = {"1": 7, "2": 8}
_MAX_HEADER: Final = 2048
_MAX_TIME_DIGITS: Final = 15
_NONCE_BYTES: Final = 16
_START_BYTES: Final = 16
# RFC 3986, and what else is usual in broker ids.
_PLAIN: Final = ":[]"


class Refusal(StrEnum):
    """Kinds of refused requests; values of a metric's label."""

    UNSIGNED = "unsigned"
    MALFORMED = "malformed"
    UNKNOWN_KEY = "unknown-key"
    OTHER_TARGET = "other-target"
    OTHER_BODY = "other-body"
    TIME = "time"
    REPEATED = "repeated"
    TOO_MANY = "too-many"
    OTHER_CERTIFICATE = "other-certificate"


class SignatureRefused(ValueError):
    """A signature is malformed or wrong, or made for another broker or time; says which.

    Attributes:
        kind: what is wrong, for a metric.
    """

    def __init__(self, kind: Refusal, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


class StartWanted(SignatureRefused):
    """A request whose nonce may have been seen before the start: it has to be signed for this one.

    Attributes:
        start: what the signature has to cover.
    """

    def __init__(self, start: str) -> None:
        super().__init__(
            Refusal.TIME, "this daemon has just started: sign the request for this start"
        )
        self.start = start


@dataclass(frozen=True, slots=True)
class RequestSignature:
    """What the header of a signed request says.

    Attributes:
        time_ms: Unix time of the signature, in milliseconds.
        nonce: random, in hexadecimal digits.
        source, target: ids of the sending and of the receiving broker.
        body_hash: SHA-256 of the body, in hexadecimal digits.
        mac: the signature of all that, and of method and path.
        start: of the receiver, drawn at its start; empty: the request names none.
    """

    time_ms: int
    nonce: str
    source: str
    target: str
    body_hash: str
    mac: bytes
    start: str = ""

    @classmethod
    def parse(cls, header: str) -> Self:
        """Read a header.

        Raises:
            SignatureRefused: it is malformed.
        """
        fields = header.split(" ") if len(header) <= _MAX_HEADER else []
        if not fields or len(fields) != _VERSIONS.get(fields[0]):
            raise SignatureRefused(
                Refusal.MALFORMED, "its signature is malformed or of an unknown version"
            )
        _, time_ms, nonce, source, target, body_hash, *start, mac = fields
        is_time = time_ms.isascii() and time_ms.isdecimal() and len(time_ms) <= _MAX_TIME_DIGITS
        if not is_time or len(nonce) != 2 * _NONCE_BYTES:
            raise SignatureRefused(
                Refusal.MALFORMED, "the time or the nonce of its signature is malformed"
            )
        try:
            raw = base64.b64decode(mac, validate=True)
        except (binascii.Error, ValueError) as error:
            raise SignatureRefused(Refusal.MALFORMED, "its signature is not in base64") from error
        return cls(int(time_ms), nonce, unquote(source), unquote(target), body_hash, raw, *start)

    def message(self, method: str, path: str) -> bytes:
        """The bytes that are signed. None of the fields can contain a line break."""
        signed = (
            "2" if self.start else "1",
            method, path, self.body_hash, str(self.time_ms), self.nonce,
            # A header may have bytes that are not UTF-8.
            *(quote(each, safe=_PLAIN, errors="surrogateescape")
              for each in (self.source, self.target)),
            *([self.start] if self.start else []),
        )  # fmt: skip
        return "\n".join(signed).encode(errors="surrogateescape")

    def covers(self, body: bytes) -> bool:
        """Whether this is the body that was signed."""
        return hash_of(body) == self.body_hash


def hash_of(body: bytes) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(body).hexdigest()


@dataclass(frozen=True, slots=True)
class RequestSigner:
    """Signs the requests of one broker."""

    keys: SigningKeys
    source: str

    def sign(
        self, target: str, method: str, path: str, body: bytes, now_ms: int, *, start: str = ""
    ) -> Mapping[str, str]:
        """The header of a request to a broker; ``path`` as in the request line, with its query.

        ``start`` is what the broker has asked for; see `StartWanted`.
        """
        nonce = secrets.token_hex(_NONCE_BYTES)
        unsigned = RequestSignature(now_ms, nonce, self.source, target, hash_of(body), b"", start)
        mac = self.keys.sign(_CONTEXT, unsigned.message(method, path))
        names = (quote(name, safe=_PLAIN) for name in (self.source, target))
        text = base64.b64encode(mac).decode()
        version, more = ("2", [start]) if start else ("1", [])
        fields = (version, str(now_ms), nonce, *names, unsigned.body_hash, *more, text)
        return {HEADER: " ".join(fields)}


class NonceMemory:
    """Nonces that have been seen, for as long as their signatures are valid.

    Bounded: beyond ``most`` in one period further ones are refused. Only holders of the key can
    fill it.

    Attributes:
        refused: how many were beyond it so far.
    """

    def __init__(self, most: int = MAX_NONCES) -> None:
        self._most = most
        self._since_ms = 0
        self._seen: set[str] = set()
        self.refused = 0
        self._before: set[str] = set()

    def show(self, bounds: BoundInstruments) -> None:
        """Show them as a bound."""
        bounds.follow(
            "signed-requests",
            used=lambda: len(self._seen),
            limit=lambda: self._most,
            refused=lambda: self.refused,
        )

    def admit(self, nonce: str, now_ms: int) -> None:
        """Remember a nonce.

        Raises:
            SignatureRefused: it has been seen, or too many have been.
        """
        # A signature is valid for less: from MAX_AHEAD_MS ahead to the skew behind.
        if not 0 <= now_ms - self._since_ms < 2 * MAX_SKEW_MS:
            self._before, self._seen = self._seen, set()
            self._since_ms = now_ms
        if nonce in self._seen or nonce in self._before:
            raise SignatureRefused(Refusal.REPEATED, "it repeats a signed request")
        if len(self._seen) >= self._most:
            self.refused += 1
            raise SignatureRefused(
                Refusal.TOO_MANY, "too many signed requests came within two minutes"
            )
        self._seen.add(nonce)


class RequestVerifier:
    """Verifies the requests to one broker.

    Args:
        started_ms: Unix time of the start of this process. Earlier signatures are refused: their
            nonces may have been seen before the start. So may those that a clock ahead has made:
            up to `MAX_AHEAD_MS` after the start a request has to be signed for this start.
    """

    def __init__(self, keys: SigningKeys, own_id: str, started_ms: int) -> None:
        self._keys = keys
        self._own_id = own_id
        self._started_ms = started_ms
        self._start = secrets.token_hex(_START_BYTES)
        self.nonces: Final = NonceMemory()

    def verify(self, header: str, method: str, path: str, now_ms: int) -> RequestSignature:
        """The signature of a request; whether it covers the body is left to the caller.

        Raises:
            StartWanted: it proves that only together with the start of this process.
            SignatureRefused: it does not prove that a broker of this cluster sends this request
                to this broker now, for the first time.
        """
        found = RequestSignature.parse(header)
        if not self._keys.verify(_CONTEXT, found.message(method, path), found.mac):
            raise SignatureRefused(
                Refusal.UNKNOWN_KEY, "its signature is not of a key of this cluster"
            )
        if found.target != self._own_id:
            raise SignatureRefused(Refusal.OTHER_TARGET, f"it is signed for {found.target!r}")
        if not -MAX_AHEAD_MS <= now_ms - found.time_ms <= MAX_SKEW_MS:
            raise SignatureRefused(
                Refusal.TIME,
                f"it was signed {(now_ms - found.time_ms) / 1000:.0f} s ago by the clock here, "
                f"and {MAX_SKEW_MS // 1000} s are allowed, and {MAX_AHEAD_MS // 1000} s ahead",
            )
        if found.start and found.start != self._start:
            raise SignatureRefused(Refusal.TIME, "it was signed for another start of this daemon")
        if not found.start and found.time_ms < self._started_ms:
            raise SignatureRefused(Refusal.TIME, "it was signed before this daemon started")
        if not found.start and found.time_ms <= self._started_ms + MAX_AHEAD_MS:
            raise StartWanted(self._start)
        self.nonces.admit(found.nonce, now_ms)
        return found
