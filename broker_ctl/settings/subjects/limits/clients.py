"""Limits by client: of connections and of requests per second."""

from dataclasses import dataclass
from typing import Annotated

from broker_ctl.settings.conditions import AUTHENTICATED, LOOKUP_PORT, OWN_BROKER, where
from broker_ctl.settings.durations import InSeconds
from broker_ctl.settings.schema import Setting


@dataclass(frozen=True, slots=True)
class ClientLimitSettings:
    """Limits by client."""

    http_connections_of_address: Annotated[
        int,
        Setting(
            "maxHttpServerConnectionsPerIp",
            "Maximum number of HTTP connections of one address, or of one /64 network of IPv6; "
            "further ones are rejected as retryable. 0: as many as maxHttpServerConnections.",
            at_least=0,
        ),
    ] = 1024
    limits_http: Annotated[
        bool,
        Setting(
            "httpRequestsLimitEnabled",
            "Whether HTTP requests of all clients together are limited to "
            "httpRequestsMaxPerSecond. Health checks and what brokers send each other are not "
            "limited, by any of the limits.",
        ),
    ] = False
    http_req_per_s: Annotated[
        float,
        Setting(
            "httpRequestsMaxPerSecond",
            "Maximum number of HTTP requests per second of all clients together; further ones "
            "are rejected with 429.",
            above=0,
            used_with=(where("httpRequestsLimitEnabled", "true"),),
        ),
    ] = 100.0
    http_of_address_req_per_s: Annotated[
        float,
        Setting(
            "httpRequestsMaxPerSecondPerIp",
            "Maximum number of HTTP requests per second of one address, or of one /64 network of "
            "IPv6; further ones are rejected with 429. 0: no limit.",
            at_least=0,
        ),
    ] = 0.0
    http_of_role_req_per_s: Annotated[
        float,
        Setting(
            "httpRequestsMaxPerSecondPerRole",
            "Maximum number of HTTP requests per second of one role; further ones are rejected "
            "with 429. 0: no limit.",
            at_least=0,
            used_with=(AUTHENTICATED,),
        ),
    ] = 0.0
    binary_connections: Annotated[
        int,
        Setting(
            "brokerMaxConnections",
            "Maximum number of connected clients of the binary protocol, over both ports; "
            "further ones are rejected as retryable. 0: no limit.",
            at_least=0,
            used_with=(OWN_BROKER, LOOKUP_PORT),
        ),
    ] = 10_000
    binary_connections_of_address: Annotated[
        int,
        Setting(
            "brokerMaxConnectionsPerIp",
            "Maximum number of connected clients of the binary protocol from one address, or "
            "from one /64 network of IPv6. 0: no limit.",
            at_least=0,
            used_with=(OWN_BROKER, LOOKUP_PORT),
        ),
    ] = 0
    binary_of_address_req_per_s: Annotated[
        float,
        Setting(
            "lookupRequestsMaxPerSecondPerIp",
            "Maximum number of requests per second of one address, or of one /64 network of "
            "IPv6, in the binary protocol; further ones are rejected as retryable "
            "(TooManyRequests). 0: no limit.",
            at_least=0,
            used_with=(OWN_BROKER, LOOKUP_PORT),
        ),
    ] = 0.0
    binary_of_role_req_per_s: Annotated[
        float,
        Setting(
            "lookupRequestsMaxPerSecondPerRole",
            "Maximum number of requests per second of one role in the binary protocol; further "
            "ones are rejected as retryable (TooManyRequests). 0: no limit.",
            at_least=0,
            used_with=(OWN_BROKER, LOOKUP_PORT, AUTHENTICATED),
        ),
    ] = 0.0
    max_failure_delay_ms: Annotated[
        int,
        Setting(
            "authenticationFailureMaxDelayMs",
            "Longest delay of the answer to a failed authentication. The delay begins with the "
            "eleventh failure of an address, or of a /64 network of IPv6, and doubles with each "
            "one; valid credentials are not delayed. 0: no delay.",
            at_least=0,
            at_most=60_000,
        ),
    ] = 5_000

    max_failure_delay_s = InSeconds("max_failure_delay_ms")
