"""The HTTP ports of a daemon, from the settings."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from broker_ctl.settings.addresses import Address
from broker_ctl.settings.conditions import OWN_BROKER
from broker_ctl.settings.root import Settings


class PortRole(StrEnum):
    """What a pair of ports is for."""

    PUBLIC = "public"
    ADMIN = "admin"
    METRICS = "metrics"


@dataclass(frozen=True, slots=True)
class PortKeys:
    """The settings of a pair of ports."""

    address: str
    port: str
    port_tls: str


KEYS: Final = {
    PortRole.PUBLIC: PortKeys("bindAddress", "webServicePort", "webServicePortTls"),
    PortRole.ADMIN: PortKeys("adminBindAddress", "adminServicePort", "adminServicePortTls"),
    PortRole.METRICS: PortKeys("metricsBindAddress", "metricsServicePort", "metricsServicePortTls"),
}


@dataclass(frozen=True, slots=True)
class HttpPort:
    """A port in the clear, one over TLS, or both, at one address.

    Attributes:
        port: 0: any free port; None: no port in the clear.
        port_tls: the same over TLS.
    """

    role: PortRole
    address: str = "127.0.0.1"
    port: int | None = None
    port_tls: int | None = None

    @property
    def numbers(self) -> tuple[int, ...]:
        """The ports that there are."""
        return tuple(port for port in (self.port, self.port_tls) if port is not None)


def further_ports(settings: Settings) -> tuple[HttpPort, ...]:
    """The ports beside the public ones that have their own listeners."""
    ports, shared = settings.http_ports, settings.broker.bind_address
    admin = HttpPort(
        PortRole.ADMIN, ports.admin_address or shared, ports.admin_port, ports.admin_port_tls
    )
    metrics = HttpPort(
        PortRole.METRICS,
        ports.metrics_address or shared,
        ports.metrics_port,
        ports.metrics_port_tls,
    )
    wanted = (admin, metrics) if OWN_BROKER.holds(settings) else (metrics,)
    return tuple(port for port in wanted if port.numbers)


def token_addresses(settings: Settings) -> Iterator[tuple[str, int]]:
    """Hosts and ports at which local commands reach this daemon with a token."""
    broker = settings.broker
    public = HttpPort(
        PortRole.PUBLIC, broker.bind_address, broker.web_service_port, broker.web_service_port_tls
    )
    for each in (public, *further_ports(settings)):
        for number in each.numbers:
            yield each.address, number


def admin_urls(settings: Settings) -> tuple[str | None, str | None]:
    """Where other brokers reach the admin ports, in the clear and over TLS; None: no such port."""
    host = settings.broker.advertised_host
    for each in further_ports(settings):
        if each.role is PortRole.ADMIN:
            return _url("http", host, each.port), _url("https", host, each.port_tls)
    return None, None


def _url(scheme: str, host: str, port: int | None) -> str | None:
    return None if port is None else f"{scheme}://{Address(host, port)}"
