"""Who this broker is and what it advertises."""

import socket
from dataclasses import dataclass
from typing import Annotated, Final

from broker_ctl.settings.addresses import HOST, Address, Listener, is_loopback
from broker_ctl.settings.model import Setting

_HOST_WORDS: Final = "a host name or an IP address"


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Broker: its names, addresses and ports."""

    cluster_name: Annotated[
        str,
        Setting(
            "clusterName",
            "Name of the cluster that this broker belongs to.",
            matches=r"[-=:.\w]+",
            allowed="letters, digits and -=:._",
        ),
    ] = "standalone"
    bind_address: Annotated[
        str,
        Setting(
            "bindAddress",
            "Where the HTTP server listens; off loopback, it wants authentication.",
            matches=HOST,
            allowed=_HOST_WORDS,
        ),
    ] = "127.0.0.1"
    advertised_address: Annotated[
        str,
        Setting(
            "advertisedAddress",
            "Host that others are told; empty: 127.0.0.1 where bindAddress is loopback, else this "
            "machine's host name.",
            matches=HOST,
            allowed=_HOST_WORDS,
        ),
    ] = ""
    web_service_port: Annotated[
        int,
        Setting(
            "webServicePort",
            "Port of the HTTP server: lookup, admin, metrics, health; with the advertised host, "
            "it names the broker.",
            at_least=1,
            at_most=65_535,
        ),
    ] = 8080
    web_service_port_tls: Annotated[
        int | None,
        Setting(
            "webServicePortTls",
            "HTTPS port that lookups name; it is only advertised, a proxy ends TLS.",
            at_least=1,
            at_most=65_535,
        ),
    ] = None
    broker_service_port: Annotated[
        int,
        Setting(
            "brokerServicePort",
            "Port of the broker process that lookups name; it is only advertised.",
            at_least=1,
            at_most=65_535,
        ),
    ] = 6650
    broker_service_port_tls: Annotated[
        int | None,
        Setting(
            "brokerServicePortTls",
            "TLS port of the broker process that lookups name; it is only advertised.",
            at_least=1,
            at_most=65_535,
        ),
    ] = None
    advertised_listeners: Annotated[
        tuple[Listener, ...],
        Setting(
            "advertisedListeners",
            "Further addresses of the broker process, by listener name, for clients elsewhere.",
            allowed="name:pulsar://host:port (or pulsar+ssl, http, https)",
        ),
    ] = ()
    internal_listener_name: Annotated[
        str,
        Setting(
            "internalListenerName",
            "Listener that brokers use among themselves; empty: the first of advertisedListeners.",
            matches=r"[\w.-]+",
            allowed="letters, digits and ._-",
        ),
    ] = ""
    numeric_id: Annotated[
        int | None,
        Setting("brokerId", "Number of this broker in the replica lists of partitions."),
    ] = None
    allow_mixed_cluster: Annotated[
        bool,
        Setting(
            "allowMixedCluster",
            "Join a cluster in which brokers that are not broker-ctl's are registered.",
        ),
    ] = False

    @property
    def advertised_host(self) -> str:
        """The host that others are told."""
        if self.advertised_address:
            return self.advertised_address
        return "127.0.0.1" if is_loopback(self.bind_address) else socket.gethostname()

    @property
    def broker_id(self) -> str:
        """Name of this broker everywhere: the advertised host and the HTTP port, as Pulsar's."""
        return str(Address(self.advertised_host, self.web_service_port))

    @property
    def web_service_url(self) -> str:
        """``http://host:port``."""
        return f"http://{self.broker_id}"

    @property
    def web_service_url_tls(self) -> str | None:
        """``https://host:port``, where a TLS port is advertised."""
        port = self.web_service_port_tls
        return None if port is None else f"https://{Address(self.advertised_host, port)}"

    @property
    def broker_service_url(self) -> str:
        """``pulsar://host:port``."""
        return f"pulsar://{Address(self.advertised_host, self.broker_service_port)}"

    @property
    def broker_service_url_tls(self) -> str | None:
        """``pulsar+ssl://host:port``, where a TLS port is advertised."""
        port = self.broker_service_port_tls
        return None if port is None else f"pulsar+ssl://{Address(self.advertised_host, port)}"
