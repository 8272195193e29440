"""A client whose identity is proven."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# Of the token that a daemon draws itself; no other proof gives this role.
LOOPBACK_ROLE: Final = "loopback"


class Proof(StrEnum):
    """What proved the role of a client."""

    STATIC_TOKEN = "static-token"  # noqa: S105  # a kind, no secret
    JWT = "jwt"
    CERTIFICATE = "certificate"
    LOOPBACK_TOKEN = "loopback-token"  # noqa: S105  # a kind, no secret
    SIGNED_REQUEST = "signed-request"


@dataclass(frozen=True, slots=True)
class Principal:
    """A role, and what proved it.

    Attributes:
        expires_at_s: Unix time from which the proof is invalid; None: it does not expire.
        token_id: the claim ``jti`` of a JWT (RFC 7519, section 4.1.7); empty: it has none.
    """

    role: str
    proof: Proof
    expires_at_s: float | None = None
    token_id: str = ""

    def is_expired(self, now_s: float) -> bool:
        """Whether the proof is invalid at this Unix time."""
        return self.expires_at_s is not None and now_s >= self.expires_at_s
