"""Requests of other brokers: signed with a key of the cluster, or by certificate."""

from collections.abc import Callable
from typing import Any, Final

from aiohttp import web

from broker_ctl.api.http.bodies import read_bounded
from broker_ctl.api.http.responses import ApiError
from broker_ctl.api.http.routing import in_task
from broker_ctl.clock import Clock
from broker_ctl.instruments.clients import BoundInstruments
from broker_ctl.security.authentication import Evidence, Principal, Proof
from broker_ctl.security.certificates.peer_certificate import (
    BrokerIdentity,
    PeerCertificate,
    peer_certificate,
)
from broker_ctl.security.cluster_key import SigningKeys
from broker_ctl.security.signed_requests import (
    HEADER,
    Refusal,
    RequestSignature,
    RequestVerifier,
    SignatureRefused,
    StartWanted,
)
from broker_ctl.settings.addresses import is_loopback

# Requests of other brokers over TLS, by their certificates (docs: threat-peers).


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


# Requests of other brokers, which are signed with a key of the cluster (docs: threat-peers).


# Only brokers send them. Operators have verbs of their own.
_COMMANDS: Final = frozenset(
    {
        ("POST", "/control/v1/{verb}"),
        ("POST", "/control/v1/instructions"),
        ("POST", "/control/v1/controlled-shutdown"),
    }
)
# What brokers send each other besides, for an operator who asked one of them.
_FORWARDED: Final = frozenset(
    {
        ("GET", "/control/v1/topics/{tenant}/{namespace}"),
        ("PUT", "/admin/v2/namespaces/{tenant}/{namespace}/{bundle}/unload"),
        ("PUT", "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/unload"),
    }
)
# Above the size of an instruction and of every command.
_MOST_BYTES: Final = 512 * 1024
_SIGNATURE: Final = web.RequestKey("signature", RequestSignature)


class PeerRequests:
    """Judges signed requests.

    Args:
        is_required: whether commands are refused that are not signed.
        role: what signed requests are logged under.
        on_refusal: called with the kind of each refused request.
    """

    def __init__(
        self,
        keys: SigningKeys,
        own_id: str,
        clock: Clock,
        *,
        role: str,
        is_required: bool,
        on_refusal: Callable[[str], None],
        bounds: BoundInstruments,
    ) -> None:
        self._clock = clock
        self._verifier = RequestVerifier(keys, own_id, clock.wall_ms())
        self._verifier.nonces.show(bounds)
        self._on_refusal = on_refusal
        self.role: Final = role
        self.is_required: Final = is_required

    def is_broker(self, request: web.Request, brokers: BrokerCertificates | None = None) -> bool:
        """Whether another broker has signed a request; False: the request has no signature.

        With ``brokers``, a client certificate has to be that of the broker that has signed.

        Raises:
            StartWanted: it has one that has to name the start of this process, too.
            SignatureRefused: it has one that proves nothing.
        """
        headers = request.headers.getall(HEADER, ())
        if not headers:
            return False
        try:
            if len(headers) > 1:
                raise SignatureRefused(Refusal.MALFORMED, "it has several signatures")
            now_ms = self._clock.wall_ms()
            signature = self._verifier.verify(headers[0], request.method, request.raw_path, now_ms)
            if brokers is not None and brokers.contradicts(request, signature.source):
                reason = f"{signature.source!r} has signed it, and the certificate is another's"
                raise SignatureRefused(Refusal.OTHER_CERTIFICATE, reason)
        except StartWanted:
            raise
        except SignatureRefused as refused:
            self._on_refusal(refused.kind.value)
            raise
        request[_SIGNATURE], request[_JUDGE] = signature, self
        return True

    def refuses_unsigned(self, route: str, method: str) -> bool:
        """Whether a request is refused because it is not signed; counts it."""
        is_refused = self.is_required and (method, route) in _COMMANDS
        if is_refused:
            self._on_refusal(Refusal.UNSIGNED.value)
        return is_refused

    async def check_body(self, request: web.Request, signature: RequestSignature) -> None:
        """See the function of this name."""
        if not signature.covers(await read_bounded(request, _MOST_BYTES)):
            self._on_refusal(Refusal.OTHER_BODY.value)
            raise ApiError(401, "another body was signed", kind="Unauthorized")


_JUDGE: Final = web.RequestKey("judge", PeerRequests)


def is_order(route: str, method: str) -> bool:
    """Whether brokers may send such a request."""
    return (method, route) in _COMMANDS or (method, route) in _FORWARDED


async def check_body(request: web.Request) -> None:
    """Read the body of a signed request, and compare it with its signature.

    Raises:
        ApiError: 401, another body was signed; 408, not sent in time; 413, too large.
    """
    # Most requests have none, and a missing key of a request is slower to notice than a header.
    judge: PeerRequests | None = request.get(_JUDGE) if HEADER in request.headers else None
    if judge is not None:
        await in_task(request)
        await judge.check_body(request, request[_SIGNATURE])


def sender_of(request: web.Request) -> str:
    """Id of the broker that has sent a request; empty: it is not a broker's."""
    signature: RequestSignature | None = request.get(_SIGNATURE)
    return certified_sender(request) if signature is None else signature.source
