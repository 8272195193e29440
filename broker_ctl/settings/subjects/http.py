"""Limits of the HTTP server."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from broker_ctl.settings.addresses import check_host
from broker_ctl.settings.conditions import CONSOLE, OWN_BROKER
from broker_ctl.settings.durations import InSeconds
from broker_ctl.settings.schema import Setting


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
