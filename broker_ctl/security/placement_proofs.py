"""Proofs that the leader chose a broker for a bundle, which clients carry in redirects.

A client is redirected to the broker that the leader chose, and says there that it was
(``authoritative=true``, docs: pulsar-lookup). Any client could say so. The redirect of a leader
that has the cluster's key therefore carries a proof: a signature of the bundle, the chosen broker,
the epoch of the leader and the end of its validity.
"""

import base64
import binascii
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.core.model.names import Bundle
from broker_ctl.security.cluster_key import SigningKeys
from broker_ctl.security.signed_requests import MAX_SKEW_MS

# A client follows a redirect at once; a slow one is asked to begin again.
LIFETIME_MS: Final = 30_000
_CONTEXT: Final = "placement"
_VERSION: Final = "1"
_FIELDS: Final = 4
_MAX_LENGTH: Final = 256
_MAX_DIGITS: Final = 18


class ProofFailure(StrEnum):
    """Why a lookup proves nothing; values of a metric's label."""

    MISSING = "missing"
    WRONG = "wrong"
    EXPIRED = "expired"
    STALE_EPOCH = "stale-epoch"


class PlacementProofs:
    """Makes proofs for other brokers, and judges those for this one.

    Args:
        is_required: whether a lookup without a valid proof counts as one that is not authoritative;
            otherwise it is only counted.
        epoch: the epoch of this broker's leadership, or the newest one that it knows.
        on_failure: called for each lookup without a valid proof.
    """

    def __init__(
        self,
        keys: SigningKeys,
        own_id: str,
        clock: Clock,
        *,
        is_required: bool,
        epoch: Callable[[], int],
        on_failure: Callable[[str], None],
    ) -> None:
        self._keys = keys
        self._own_id = own_id
        self._clock = clock
        self._epoch = epoch
        self._on_failure = on_failure
        self.is_required: Final = is_required

    def make(self, bundle: Bundle, broker_id: str) -> str:
        """A proof that this broker chose another one for a bundle; safe in a URL as it is."""
        expires_ms = self._clock.wall_ms() + LIFETIME_MS
        epoch = self._epoch()
        signature = self._keys.sign(_CONTEXT, _message(epoch, expires_ms, bundle, broker_id))
        # 36 bytes need no padding.
        text = base64.urlsafe_b64encode(signature).decode()
        return f"{_VERSION}.{epoch}.{expires_ms}.{text}"

    def accept(self, proof: str, bundle: Bundle) -> bool:
        """Whether a lookup with this proof counts as authoritative; counts it if it is not valid.

        ``proof`` is empty if the lookup has none.
        """
        failure = self.failure_of(proof, bundle)
        if failure is None:
            return True
        self._on_failure(failure.value)
        return not self.is_required

    def failure_of(self, proof: str, bundle: Bundle) -> ProofFailure | None:
        """Why it does not prove that the leader chose this broker; None: it does."""
        if not proof:
            return ProofFailure.MISSING
        if (parsed := _parse(proof)) is None:
            return ProofFailure.WRONG
        epoch, expires_ms, signature = parsed
        message = _message(epoch, expires_ms, bundle, self._own_id)
        if not self._keys.verify(_CONTEXT, message, signature):
            return ProofFailure.WRONG
        # Clocks of brokers may differ by as much as for signed requests.
        if self._clock.wall_ms() > expires_ms + MAX_SKEW_MS:
            return ProofFailure.EXPIRED
        return ProofFailure.STALE_EPOCH if epoch < self._epoch() else None


def _parse(proof: str) -> tuple[int, int, bytes] | None:
    """Epoch, end in Unix milliseconds, and signature; None: it is malformed."""
    fields = proof.split(".") if len(proof) <= _MAX_LENGTH else []
    if len(fields) != _FIELDS or fields[0] != _VERSION or not all(map(_is_number, fields[1:3])):
        return None
    try:
        signature = base64.b64decode(fields[3], altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return int(fields[1]), int(fields[2]), signature


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS


def _message(epoch: int, expires_ms: int, bundle: Bundle, broker_id: str) -> bytes:
    # The id comes last: only it could contain a NUL.
    fields = (_VERSION, str(epoch), str(expires_ms), str(bundle), broker_id)
    return "\0".join(fields).encode(errors="surrogateescape")
