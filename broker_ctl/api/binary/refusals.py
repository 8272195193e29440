"""The ServerError of each error (docs: pulsar-binary-lookup).

The choice decides what a client does next. ServiceNotReady makes the Java client leave the
connection and look for another broker: right if this broker cannot answer for now. MetadataError
makes a client ask again here, soon. TopicNotFound, InvalidTopicName and NotAllowedError make it
give up with the reason.
"""

from typing import Final

from broker_ctl.api.binary.enums import ServerError
from broker_ctl.api.http.responses import ApiError
from broker_ctl.errors import (
    AuthorityLost,
    BrokerCtlError,
    Draining,
    ForeignNamespace,
    InvalidName,
    NamespaceMissing,
    NoBroker,
    NoLeader,
    TopicMissing,
)

_ERRORS: Final[tuple[tuple[type[BrokerCtlError], ServerError], ...]] = (
    (InvalidName, ServerError.InvalidTopicName),
    # Pulsar answers MetadataError to a LOOKUP in a namespace that does not exist, and its
    # clients repeat it until they time out. A request for partitions is answered alike.
    (NamespaceMissing, ServerError.TopicNotFound),
    (TopicMissing, ServerError.TopicNotFound),
    (ForeignNamespace, ServerError.NotAllowedError),
    (AuthorityLost, ServerError.ServiceNotReady),
    (NoLeader, ServerError.ServiceNotReady),
    (NoBroker, ServerError.ServiceNotReady),
    (Draining, ServerError.ServiceNotReady),
)
_BUSY: Final = 503
_FORBIDDEN: Final = 403


def server_error_of(met: BrokerCtlError) -> ServerError:
    """The ServerError that answers a request which failed with this error.

    What is not listed is a matter of metadata: a bundle on its way, a store that does not answer.
    All of it may be over when the client asks again.
    """
    if isinstance(met, ApiError):
        if met.status == _FORBIDDEN:
            return ServerError.AuthorizationError
        is_busy = met.status == _BUSY
        return ServerError.TooManyRequests if is_busy else ServerError.NotAllowedError
    for kind, error in _ERRORS:
        if isinstance(met, kind):
            return error
    return ServerError.MetadataError
