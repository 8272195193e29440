"""Ports of their own for administration and for metrics."""

from dataclasses import dataclass
from typing import Annotated, Final

from broker_ctl.settings.addresses import check_host
from broker_ctl.settings.conditions import ADMIN_PORT, METRICS_PORT, OWN_BROKER
from broker_ctl.settings.schema import Setting

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
