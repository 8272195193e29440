"""The addresses and ports of a daemon: what it listens on, and what it publishes."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import Final

from broker_ctl.settings.addresses import Address, check_published_host, is_loopback
from broker_ctl.settings.conditions import OWN_BROKER, SIMULATED_REPLICAS
from broker_ctl.settings.root import Settings

# The HTTP ports of a daemon, from the settings.


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


# Rules for the addresses that a broker publishes to clients and to other brokers.
#
# Each yields the keys that contradict each other, and why.


Refusal = tuple[tuple[str, ...], str]

_LISTENERS: Final = ("advertisedListeners", "lookupAdvertisedListeners")


def addresses_can_be_published(settings: Settings) -> Iterator[Refusal]:
    """Listeners that contradict each other, and a broker without an address."""
    yield from _internal_listener_exists(settings)
    yield from _listeners_are_distinct(settings)
    yield from _there_is_an_address_for_clients(settings)


def others_reach_this_machine(settings: Settings) -> Iterator[Refusal]:
    """A host name that is published because no other address is set, and leads nowhere."""
    broker = settings.broker
    if broker.advertised_address or is_loopback(broker.bind_address):
        return
    if not OWN_BROKER.holds(settings):
        return
    host = broker.advertised_host
    try:
        check_published_host(host)
        why = "would lead others to themselves" if _is_of_every_machine(host) else ""
    except ValueError as error:
        why = f"cannot be published: {error}"
    if why:
        yield (
            ("advertisedAddress", "bindAddress"),
            f"empty, and this machine's host name, {host}, {why}: set it to what others reach",
        )


def _is_of_every_machine(host: str) -> bool:
    name = host.lower()
    return is_loopback(name) or name == "localhost.localdomain" or name.endswith(".localhost")


def _internal_listener_exists(settings: Settings) -> Iterator[Refusal]:
    broker = settings.broker
    names = {listener.name for listener in broker.advertised_listeners}
    if broker.internal_listener_name and broker.internal_listener_name not in names:
        yield (("internalListenerName", "advertisedListeners"), "no listener has that name")


def _listeners_are_distinct(settings: Settings) -> Iterator[Refusal]:
    for key in ("advertisedListeners", "lookupAdvertisedListeners"):
        listeners = settings.value(key)
        assert isinstance(listeners, tuple)
        for one, other in combinations(listeners, 2):
            if (one.name, one.scheme) == (other.name, other.scheme):
                yield ((key,), f"{one} and {other} are of one listener and scheme")
            elif one.name != other.name and one.address == other.address:
                yield ((key,), f"{one} and {other} have one address")


def _there_is_an_address_for_clients(settings: Settings) -> Iterator[Refusal]:
    broker = settings.broker
    if not OWN_BROKER.holds(settings):
        return
    if broker.broker_service_url is None and broker.broker_service_url_tls is None:
        yield (
            ("brokerServicePort", "brokerServicePortTls"),
            "clients would have no address: set one of them",
        )
    has_port = (broker.broker_service_port or broker.broker_service_port_tls) is not None
    if broker.numeric_id is not None and not has_port:
        yield (("brokerServicePort", "brokerId"), "followers would have no port: set it")
    elif SIMULATED_REPLICAS.holds(settings) and broker.broker_service_port is None:
        yield (("brokerServicePort", "brokerId"), "simulated replicas are fetched from it: set it")
