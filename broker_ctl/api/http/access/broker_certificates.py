"""Requests of other brokers over TLS, by their certificates (docs: threat-peers)."""

from typing import Any, Final

from aiohttp import web

from broker_ctl.clock import Clock
from broker_ctl.security.authentication import Evidence
from broker_ctl.security.certificates.broker_identity import BrokerIdentity
from broker_ctl.security.certificates.peer_certificate import PeerCertificate, peer_certificate
from broker_ctl.security.principal import Principal, Proof
from broker_ctl.settings.addresses import is_loopback

_SENDER: Final = web.RequestKey("certified_sender", str)


class BrokerCertificates:
    """The principals of requests whose client certificate is one of a broker of the cluster.

    Args:
        role: what such requests are logged under.
    """

    def __init__(self, identity: BrokerIdentity, role: str, clock: Clock) -> None:
        self._identity = identity
        self._clock = clock
        self.role: Final = role

    def principal_of(self, request: web.Request) -> Principal | None:
        """The principal of a broker, until its certificate expires; None: it is not one."""
        certificate = certificate_of(request)
        broker_id = "" if certificate is None else self._identity.id_in(certificate)
        if certificate is None or not broker_id:
            return None
        principal = Principal(self.role, Proof.CERTIFICATE, certificate.expires_at_s)
        if principal.is_expired(self._clock.wall_ms() / 1000):
            return None
        request[_SENDER] = broker_id
        return principal

    def contradicts(self, request: web.Request, broker_id: str) -> bool:
        """Whether a request that this broker has signed comes with the certificate of another."""
        certificate = certificate_of(request)
        return certificate is not None and not self._identity.is_of(certificate, broker_id)


def certified_sender(request: web.Request) -> str:
    """Id of the broker whose certificate a request comes with; empty: it is not a broker's."""
    sender: str = request.get(_SENDER, "")
    return sender


def evidence_of(request: web.Request, token: bytes) -> Evidence:
    """What the client of a request presents, with this token."""
    is_local = is_loopback(request.remote or "")
    return Evidence(token, certificate_of(request), is_local=is_local)


def certificate_of(request: web.Request) -> PeerCertificate | None:
    """The client certificate of a request; None: it has none that proves anything."""
    transport: Any = request.transport
    return None if transport is None else peer_certificate(transport.get_extra_info("ssl_object"))
