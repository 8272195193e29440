"""Signing and verifying of payloads.

A signature is the last field of a JSON object, ``"signature"``: 36 bytes in base64 (RFC 4648), and
before them, for a persistent node, the time. The signed message is the scope, the path, the session
that owns the node (0: none), the time (Unix time in milliseconds; 0: none) and the payload without
the field. So a payload counts at no other path, in no other cluster, and, of an ephemeral node, in
no other session.

An earlier payload of a persistent node counts no more when an attacker writes it there again: the
servers date each write, and the two times have to agree.
"""

import base64
import hmac
import logging
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.security.cluster_key import SigningKeys
from broker_ctl.security.signed_requests import MAX_SKEW_MS
from broker_ctl.store.interface import Versioned
from broker_ctl.store.signed.families import Family, family_of

log = logging.getLogger(__name__)

_CONTEXT: Final = "znode"
_SIGNED: Final = re.compile(rb',"signature":"(?:(\d{1,15})\.)?([A-Za-z0-9+/]{48})"}\Z')
# An empty object has no field that a comma could follow.
_MIN_PAYLOAD_BYTES: Final = 3
# One line for each family and reason in this time: an attacker must not fill the log.
_LOG_PERIOD_S: Final = 60.0
# Decodes nowhere.
_REFUSED: Final = b""

# Called with the names of the family and of the reason, for each payload without a valid signature.
FailureListener = Callable[[str, str], None]


class Failure(StrEnum):
    """Why a payload is not accepted; values of a metric's label."""

    UNSIGNED = "unsigned"
    WRONG = "wrong"
    REPLAYED = "replayed"


_SAYS: Final = {
    Failure.UNSIGNED: "no signature",
    Failure.WRONG: "a wrong signature",
    Failure.REPLAYED: "a signature of another time than the servers' (replayed, or clocks differ)",
}


class ZnodeSignatures:
    """Signs payloads, and verifies them.

    Args:
        scope: names the cluster; the same for all its daemons, unlike for other clusters.
        is_required: refuse what is unsigned or wrong; otherwise it is only counted and logged.
    """

    def __init__(
        self,
        keys: SigningKeys,
        scope: str,
        clock: Clock,
        *,
        is_required: bool,
        on_failure: FailureListener,
    ) -> None:
        self._keys = keys
        self._scope = scope
        self._is_required = is_required
        self._on_failure = on_failure
        self._clock = clock
        self._quiet_until_s: dict[tuple[str, Failure], float] = {}

    def seal(self, path: str, data: bytes, session_id: int) -> bytes:
        """The payload with its signature; as it is where its node carries none.

        ``session_id`` is that in which the payload will be written.
        """
        family = family_of(path)
        if family is None or len(data) < _MIN_PAYLOAD_BYTES or not data.endswith(b"}"):
            return data
        if family.is_ephemeral:
            owner, time_ms, prefix = session_id, 0, b""
        else:
            owner, time_ms = 0, self._clock.wall_ms()
            prefix = b"%d." % time_ms
        signature = self._keys.sign(_CONTEXT, self._message(path, data, owner, time_ms))
        return b'%b,"signature":"%b%b"}' % (data[:-1], prefix, base64.b64encode(signature))

    def open(self, node: Versioned) -> Versioned | None:
        """The node without its signature; a refused one is empty, or None if it is hidden."""
        family = family_of(node.path)
        if family is None:
            return node
        opened, failure = self.examine(node, family)
        return opened if failure is None else self._failed(opened, family, failure)

    def examine(self, node: Versioned, family: Family) -> tuple[Versioned, Failure | None]:
        """The node without its signature, and why it is not accepted; None: it is."""
        found = _SIGNED.search(node.data)
        if found is None:
            return node, Failure.UNSIGNED
        opened = node._replace(data=node.data[: found.start()] + b"}")
        message = self._message_of(opened, found)
        if not self._keys.verify(_CONTEXT, message, base64.b64decode(found[2])):
            return opened, Failure.WRONG
        if not family.is_ephemeral:
            time_ms = int(found[1] or 0)
            if abs(node.stat.mtime_ms - time_ms) > MAX_SKEW_MS:
                return opened, Failure.REPLAYED
        return opened, None

    def is_by_first_key(self, node: Versioned) -> bool:
        """Whether the first key, which signs, has made a node's valid signature."""
        found = _SIGNED.search(node.data)
        if found is None:
            return False
        opened = node._replace(data=node.data[: found.start()] + b"}")
        signature = self._keys.sign(_CONTEXT, self._message_of(opened, found))
        return hmac.compare_digest(signature, base64.b64decode(found[2]))

    def _message_of(self, opened: Versioned, found: re.Match[bytes]) -> bytes:
        # The owner, not whether it is ephemeral: a persistent copy does not count as ephemeral.
        owner, time_ms = opened.stat.ephemeral_owner, int(found[1] or 0)
        return self._message(opened.path, opened.data, owner, time_ms)

    def _message(self, path: str, data: bytes, owner: int, time_ms: int) -> bytes:
        scope, name = self._scope.encode(), path.encode()
        return b"%b\0%b\0%d\0%d\0%b" % (scope, name, owner, time_ms, data)

    def _failed(self, node: Versioned, family: Family, failure: Failure) -> Versioned | None:
        self._on_failure(family.name, failure.value)
        self._log(node, family, failure)
        if not self._is_required:
            return node
        return None if family.is_hidden else node._replace(data=_REFUSED)

    def _log(self, node: Versioned, family: Family, failure: Failure) -> None:
        now_s, kind = self._clock.now_s(), (family.name, failure)
        if now_s < self._quiet_until_s.get(kind, now_s):
            return
        self._quiet_until_s[kind] = now_s + _LOG_PERIOD_S
        fate = "refused" if self._is_required else "accepted until signatures are required"
        log.warning("%s carries %s under the cluster's key: %s", node.path, _SAYS[failure], fate)
