"""What the latest request of a connection has proven.

Clients show the same token in each request of a connection. To judge it again takes several times
as long as to see that it is the same.
"""

import hmac
from dataclasses import dataclass, field

from broker_ctl.security.authorization.authorization import Authorization, Client
from broker_ctl.security.principal import Principal


@dataclass(frozen=True, slots=True)
class Sender:
    """Who has sent a request.

    Attributes:
        client: None: another broker.
        authorization: that the client is subject to.
    """

    principal: Principal
    client: Client | None = None
    authorization: Authorization | None = None


@dataclass(frozen=True, slots=True)
class KnownClient:
    """A client, and the headers that it was known by.

    Attributes:
        authorization: the header with its token; ASCII.
        original: the original principal that it named.
        era: of the authenticator: in a later one the token may prove nothing.
    """

    authorization: str = field(repr=False)
    original: str
    era: int
    sender: Sender

    def is_sender(self, authorization: str, original: str, era: int, now_s: float) -> bool:
        """Whether a request with such headers, at this Unix time, is of this client."""
        return (
            self.era == era
            and self.original == original
            and not self.sender.principal.is_expired(now_s)
            and authorization.isascii()
            # The connection may be a proxy's, which passes requests of several clients.
            and hmac.compare_digest(self.authorization, authorization)
        )
