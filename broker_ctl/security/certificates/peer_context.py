"""TLS contexts for requests to one broker, whose certificate has to prove its id.

The check is part of the handshake: before it nothing of a request is sent.
"""

import ssl
from collections import OrderedDict
from typing import Any, Final, Self

from broker_ctl.security.certificates.broker_identity import BrokerIdentity
from broker_ctl.security.certificates.peer_certificate import peer_certificate

_MAX_CONTEXTS: Final = 1024
_MAX_SHOWN: Final = 200


class ProvingConnection(ssl.SSLObject):
    """A connection whose handshake fails with a server that is another broker, or none."""

    # No constructor is called: a context makes these objects.
    _identity: BrokerIdentity | None = None
    _broker_id = ""

    def require(self, identity: BrokerIdentity, broker_id: str) -> None:
        """Have the handshake require the id of this broker."""
        self._identity, self._broker_id = identity, broker_id

    def do_handshake(self) -> None:
        """See `ssl.SSLObject.do_handshake`.

        Raises:
            SSLCertVerificationError: also if the certificate does not prove the id.
        """
        super().do_handshake()
        if self._identity is None:
            return
        certificate = peer_certificate(self)
        if certificate is None or not self._identity.is_of(certificate, self._broker_id):
            named = () if certificate is None else certificate.spiffe_ids
            raise ssl.SSLCertVerificationError(
                f"the certificate does not prove the id {self._broker_id!r:.{_MAX_SHOWN}}: it has "
                + (", ".join(named)[:_MAX_SHOWN] or "no SPIFFE ID")
            )


class PeerContext(ssl.SSLContext):
    """Delegates each handshake to another context, and has it require the id of one broker."""

    _base: ssl.SSLContext
    _identity: BrokerIdentity
    _broker_id: str

    def __new__(cls, base: ssl.SSLContext, identity: BrokerIdentity, broker_id: str) -> Self:
        """A context of the same kind; it has no certificates, and is used for no handshake.

        ``base`` must make objects of `ProvingConnection`.
        """
        made = super().__new__(cls, base.protocol)
        made._base, made._identity, made._broker_id = base, identity, broker_id
        return made

    def __init__(self, base: ssl.SSLContext, identity: BrokerIdentity, broker_id: str) -> None:
        """See `__new__`."""

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        """See `ssl.SSLContext.wrap_bio`; asyncio and uvloop begin each handshake with it."""
        connection = self._base.wrap_bio(*arguments, **named)
        if not isinstance(connection, ProvingConnection):
            # Never without the check.
            raise ssl.SSLError("the context does not make connections that prove an id")
        connection.require(self._identity, self._broker_id)
        return connection

    def __repr__(self) -> str:
        return f"PeerContext({self._broker_id!r:.{_MAX_SHOWN}})"


class PeerContexts:
    """The context for each broker, up to a number; those used last are kept.

    Connections are pooled by context, so a request to one broker never takes that to another.
    """

    def __init__(self, base: ssl.SSLContext, identity: BrokerIdentity) -> None:
        self._base = base
        self._identity = identity
        self._contexts: OrderedDict[str, PeerContext] = OrderedDict()

    def of(self, broker_id: str) -> ssl.SSLContext:
        """The context for requests to a broker."""
        found = self._contexts.get(broker_id)
        if found is None:
            found = self._contexts[broker_id] = PeerContext(self._base, self._identity, broker_id)
            if len(self._contexts) > _MAX_CONTEXTS:
                self._contexts.popitem(last=False)
        else:
            self._contexts.move_to_end(broker_id)
        return found
