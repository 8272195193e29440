"""Roles of client certificates, as Pulsar's AuthenticationProviderTls and Kafka's mapping rules."""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from broker_ctl.security.authentication import Evidence
from broker_ctl.security.certificates.broker_identity import BrokerIdentity
from broker_ctl.security.certificates.mapping_rules import MappingRules
from broker_ctl.security.certificates.peer_certificate import PeerCertificate
from broker_ctl.security.principal import Principal, Proof

_MAX_ROLE_LENGTH: Final = 256
_MAX_CACHED: Final = 1024
_ESCAPE: Final = "\\"


class CertificateRoles:
    """The provider of roles that verified client certificates prove, until they expire.

    Without rules the role is the common name of the subject, as in Pulsar, or the whole SPIFFE ID
    of a certificate whose subject has none. With rules it is what they make of the SPIFFE ID or,
    for lack of one, of the distinguished name.

    Args:
        now_s: Unix time in seconds.
        brokers: whose certificates give no role of a client; None: there are none.
    """

    def __init__(
        self,
        rules: MappingRules | None,
        now_s: Callable[[], float],
        brokers: BrokerIdentity | None = None,
    ) -> None:
        self._rules = rules
        self._now_s = now_s
        self._brokers = brokers
        # Patterns may be expensive, and a client sends many requests with one certificate.
        self._role = lru_cache(maxsize=_MAX_CACHED)(self._role_of)

    def authenticate(self, evidence: Evidence) -> Principal | None:
        """See `Provider.authenticate`."""
        certificate = evidence.certificate
        if certificate is None:
            return None
        role = self._role(certificate) or ""
        principal = Principal(role, Proof.CERTIFICATE, certificate.expires_at_s)
        is_role = 0 < len(role) <= _MAX_ROLE_LENGTH and role.isprintable()
        return principal if is_role and not principal.is_expired(self._now_s()) else None

    def _role_of(self, certificate: PeerCertificate) -> str | None:
        ids = certificate.spiffe_ids
        is_broker = self._brokers is not None and bool(self._brokers.id_in(certificate))
        if is_broker or len(ids) > 1:
            return None
        if self._rules is None:
            return certificate.common_name or "".join(ids)
        if ids:
            return self._rules.role_of(ids[0])
        # A pattern could take an escaped comma in a value for the end of the value.
        is_plain = _ESCAPE not in certificate.subject
        return self._rules.role_of(certificate.subject) if is_plain else None
