"""Bounds of the HTTP server."""

from dataclasses import dataclass
from typing import Annotated

from broker_ctl.settings.conditions import OWN_BROKER
from broker_ctl.settings.schema import Setting


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Requests of clients: bounds."""

    max_concurrent_lookups: Annotated[
        int,
        Setting(
            "maxConcurrentLookupRequest",
            "Lookups in progress at a time; one more is refused, to be repeated.",
            at_least=1,
            is_dynamic=True,
            used_with=(OWN_BROKER,),
        ),
    ] = 50_000
    most_partitions: Annotated[
        int,
        Setting(
            "maxNumPartitionsPerPartitionedTopic",
            "Most partitions that a topic may be given; 0: 65,536.",
            at_least=0,
            is_dynamic=True,
            used_with=(OWN_BROKER,),
        ),
    ] = 0
    status_file: Annotated[
        str,
        Setting(
            "statusFilePath",
            "File that an operator takes away to have a load balancer send no more clients: "
            "while it is there and the broker is ready, /status.html is 200, else 404. Empty: 404.",
            used_with=(OWN_BROKER,),
        ),
    ] = ""
    max_requests_in_flight: Annotated[
        int,
        Setting(
            "maxConcurrentHttpRequests",
            "HTTP requests in progress at a time; one more is refused, to be repeated.",
            at_least=1,
        ),
    ] = 1024
    max_connections: Annotated[
        int,
        Setting(
            "maxHttpServerConnections",
            "HTTP connections at a time, of both ports together; one more is refused, to be "
            "repeated. At most half of the files that the process may open.",
            at_least=1,
        ),
    ] = 2048
    idle_timeout_ms: Annotated[
        int,
        Setting(
            "httpServerIdleTimeout",
            "How long an HTTP connection may be without a request, or take for the head of one, "
            "before it is closed.",
            at_least=1,
        ),
    ] = 30_000
    max_body_bytes: Annotated[
        int,
        Setting(
            "httpMaxRequestBodyBytes", "Longest body of a request that is read.", at_least=1024
        ),
    ] = 1024 * 1024

    @property
    def idle_timeout_s(self) -> float:
        """In seconds."""
        return self.idle_timeout_ms / 1000
