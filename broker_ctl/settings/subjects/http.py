"""The HTTP server: its ports, and its limits."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from broker_ctl.settings.addresses import check_host
from broker_ctl.settings.conditions import (
    ADMIN_PORT,
    AUTHENTICATED,
    CONSOLE,
    LOOKUP_PORT,
    METRICS_PORT,
    OWN_BROKER,
    where,
)
from broker_ctl.settings.schema import Setting
from broker_ctl.settings.values import InSeconds

# Limits of the HTTP server.


class ConsoleMode(StrEnum):
    """When the console is served."""

    AUTO = "auto"
    ON = "true"
    OFF = "false"


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Requests of clients: limits."""

    max_concurrent_lookups: Annotated[
        int,
        Setting(
            "maxConcurrentLookupRequest",
            "Maximum number of concurrent lookups; further ones are rejected as retryable.",
            at_least=1,
            is_dynamic=True,
            used_with=(OWN_BROKER,),
        ),
    ] = 50_000
    most_partitions: Annotated[
        int,
        Setting(
            "maxNumPartitionsPerPartitionedTopic",
            "Maximum number of partitions of a topic; 0: 65,536.",
            at_least=0,
            is_dynamic=True,
            used_with=(OWN_BROKER,),
        ),
    ] = 0
    status_file: Annotated[
        str,
        Setting(
            "statusFilePath",
            "File whose removal makes a load balancer stop sending clients: /status.html "
            "answers 200 while the file exists and the broker is ready, otherwise 404. Empty: "
            "always 404.",
            used_with=(OWN_BROKER,),
        ),
    ] = ""
    max_requests_in_flight: Annotated[
        int,
        Setting(
            "maxConcurrentHttpRequests",
            "Maximum number of concurrent HTTP requests; further ones are rejected as retryable.",
            at_least=1,
        ),
    ] = 1024
    max_connections: Annotated[
        int,
        Setting(
            "maxHttpServerConnections",
            "Maximum number of HTTP connections: of webServicePort and webServicePortTls together, "
            "and as many of the ports for administration and for metrics; further ones are "
            "rejected as retryable. All together are limited to half of the process's "
            "open-file limit.",
            at_least=1,
        ),
    ] = 2048
    idle_timeout_ms: Annotated[
        int,
        Setting(
            "httpServerIdleTimeout",
            "Time after which an HTTP connection without a complete request head is closed.",
            at_least=1,
        ),
    ] = 30_000
    max_body_bytes: Annotated[
        int,
        Setting("httpMaxRequestBodyBytes", "Maximum size of a request body.", at_least=1024),
    ] = 1024 * 1024
    allowed_hosts: Annotated[
        tuple[str, ...],
        Setting(
            "httpAllowedHosts",
            "Further host names under which clients reach the HTTP server, such as that of a "
            "load balancer. The advertised names, IP addresses and localhost need no entry; "
            "requests for any other host are refused with 421.",
            check=check_host,
            allowed="host names",
        ),
    ] = ()

    console: Annotated[
        ConsoleMode,
        Setting(
            "consoleEnabled",
            "Whether the console is served at /ui/. auto: unless the HTTP server listens off "
            "loopback without authentication.",
        ),
    ] = ConsoleMode.AUTO
    is_console_read_only: Annotated[
        bool,
        Setting(
            "consoleReadOnly",
            "Whether the console offers nothing that changes something.",
            used_with=(CONSOLE,),
        ),
    ] = False

    idle_timeout_s = InSeconds("idle_timeout_ms")


# Ports of their own for administration and for metrics.


_HOST_WORDS: Final = "a host name or an IP address"


@dataclass(frozen=True, slots=True)
class HttpPortSettings:
    """HTTP ports of their own, for administration and for metrics."""

    admin_port: Annotated[
        int | None,
        Setting(
            "adminServicePort",
            "Port of its own for administration, commands of other brokers and the broker process. "
            "webServicePort then serves lookups, health and metrics only. Empty: no such port. "
            "Set it once every broker has this release.",
            at_least=1,
            at_most=65_535,
            used_with=(OWN_BROKER,),
        ),
    ] = None
    admin_port_tls: Annotated[
        int | None,
        Setting(
            "adminServicePortTls",
            "The same with TLS, by the certificate of webServicePortTls; empty: none.",
            at_least=1,
            at_most=65_535,
            used_with=(OWN_BROKER,),
        ),
    ] = None
    admin_address: Annotated[
        str,
        Setting(
            "adminBindAddress",
            "Address on which these two ports listen; other brokers have to reach it. Empty: "
            "bindAddress. An address other than loopback requires authentication.",
            check=check_host,
            allowed=_HOST_WORDS,
            used_with=(OWN_BROKER, ADMIN_PORT),
        ),
    ] = ""
    metrics_port: Annotated[
        int | None,
        Setting(
            "metricsServicePort",
            "Port of its own for metrics; other ports then serve none. Empty: no such port.",
            at_least=1,
            at_most=65_535,
        ),
    ] = None
    metrics_port_tls: Annotated[
        int | None,
        Setting(
            "metricsServicePortTls",
            "The same with TLS, by the certificate of webServicePortTls; empty: none.",
            at_least=1,
            at_most=65_535,
        ),
    ] = None
    metrics_address: Annotated[
        str,
        Setting(
            "metricsBindAddress",
            "Address on which these two ports listen; empty: bindAddress.",
            check=check_host,
            allowed=_HOST_WORDS,
            used_with=(METRICS_PORT,),
        ),
    ] = ""


# Limits by client: of connections and of requests per second.


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
