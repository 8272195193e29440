"""Authentication: a chain of providers judges the evidence of a client, on every port."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Protocol

from broker_ctl.security.certificates.peer_certificate import PeerCertificate

# A client whose identity is proven.


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


# Authentication: a chain of providers judges the evidence of a client, on every protocol alike.


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a client presents.

    Attributes:
        token: its bearer token; empty: none.
        certificate: its client certificate, which the TLS handshake has verified; None: none.
        is_local: whether its connection comes from a loopback address.
    """

    token: bytes = field(default=b"", repr=False)
    certificate: PeerCertificate | None = None
    is_local: bool = False


class Provider(Protocol):
    """One way to prove a role."""

    def authenticate(self, evidence: Evidence) -> Principal | None:
        """The principal that the evidence proves; None: it proves none to this provider."""


class Authenticator:
    """The first principal that one of the providers finds.

    A token is judged alone: if none of the providers accepts it, the client's certificate does not
    help. A client that presents a wrong token never gets the role of its certificate.

    Attributes:
        era: how often tokens or keys were replaced: until the next time, evidence that has proven a
            role proves it again, unless it expires.
    """

    def __init__(self, providers: Sequence[Provider]) -> None:
        self._providers = tuple(providers)
        self._listeners: list[Callable[[], None]] = []
        self.era = 0

    def listen(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` when evidence that proved a role may not prove it any more."""
        self._listeners.append(listener)

    def announce_change(self) -> None:
        """Tokens or keys were replaced."""
        self.era += 1
        for listener in self._listeners:
            listener()

    def authenticate(self, evidence: Evidence) -> Principal | None:
        """The principal of a client; None: nothing that it presents proves a role."""
        if evidence.token and evidence.certificate is not None:
            evidence = replace(evidence, certificate=None)
        for provider in self._providers:
            principal = provider.authenticate(evidence)
            if principal is not None:
                return principal if _may_have_role(principal) else None
        return None


def _may_have_role(principal: Principal) -> bool:
    """Whether its proof may give this role: that of the local commands is a super user."""
    return principal.role != LOOPBACK_ROLE or principal.proof is Proof.LOOPBACK_TOKEN
