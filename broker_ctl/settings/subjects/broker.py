"""Who this broker is and what it advertises."""

import socket
from dataclasses import dataclass
from typing import Annotated, Final

from broker_ctl.settings.addresses import HOST, Address, Listener, is_loopback
from broker_ctl.settings.conditions import NEVER, OWN_BROKER
from broker_ctl.settings.schema import Setting

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
        int | None,
        Setting(
            "webServicePort",
            "Port of the HTTP server: lookup, admin, metrics, health; with the advertised host, "
            "it names the broker. Empty: only webServicePortTls is served, and names it.",
            at_least=1,
            at_most=65_535,
            is_off_when_empty=True,
        ),
    ] = 8080
    web_service_port_tls: Annotated[
        int | None,
        Setting(
            "webServicePortTls",
            "Port on which the same is served over TLS; empty: none.",
            at_least=1,
            at_most=65_535,
        ),
    ] = None
    lookup_service_port: Annotated[
        int | None,
        Setting(
            "lookupServicePort",
            "Port of Pulsar's binary protocol on this daemon, for lookups; the broker process "
            "beside it has brokerServicePort. Empty: none.",
            at_least=1,
            at_most=65_535,
            used_with=(OWN_BROKER,),
        ),
    ] = None
    lookup_service_port_tls: Annotated[
        int | None,
        Setting(
            "lookupServicePortTls",
            "Port on which the same is served over TLS; empty: none.",
            at_least=1,
            at_most=65_535,
            used_with=(OWN_BROKER,),
        ),
    ] = None
    broker_service_port: Annotated[
        int,
        Setting(
            "brokerServicePort",
            "Port of the broker process that lookups name. It is only advertised, but for "
            "dataPlane=simulated with a brokerId, whose replicas are fetched there.",
            at_least=1,
            at_most=65_535,
            used_with=(OWN_BROKER,),
        ),
    ] = 6650
    broker_service_port_tls: Annotated[
        int | None,
        Setting(
            "brokerServicePortTls",
            "TLS port of the broker process that lookups name; it is only advertised.",
            at_least=1,
            at_most=65_535,
            used_with=(OWN_BROKER,),
        ),
    ] = None
    advertised_listeners: Annotated[
        tuple[Listener, ...],
        Setting(
            "advertisedListeners",
            "Further addresses of the broker process, by listener name, for clients elsewhere.",
            allowed="name:pulsar://host:port (or pulsar+ssl, http, https)",
            used_with=(OWN_BROKER,),
        ),
    ] = ()
    takes_persistent_topics: Annotated[
        bool,
        Setting(
            "enablePersistentTopics",
            "The broker process serves persistent topics; else it is given no bundle for one, but "
            "by an isolation policy.",
            used_with=(OWN_BROKER,),
        ),
    ] = True
    takes_non_persistent_topics: Annotated[
        bool,
        Setting(
            "enableNonPersistentTopics",
            "The same for non-persistent topics.",
            used_with=(OWN_BROKER,),
        ),
    ] = True
    protocols: Annotated[
        tuple[str, ...],
        Setting(
            "advertisedProtocols",
            "Protocol handlers of the broker process and what each advertises, which other brokers "
            "read in its load report.",
            matches=r"[-.A-Za-z0-9_]+=[!-+.-~-]+",
            allowed="name=what it advertises",
            used_with=(OWN_BROKER,),
        ),
    ] = ()
    internal_listener_name: Annotated[
        str,
        Setting(
            "internalListenerName",
            "No effect: brokers call each other's HTTP server. Must be one of advertisedListeners.",
            matches=r"[\w.-]+",
            allowed="letters, digits and ._-",
            used_with=(NEVER,),
        ),
    ] = ""
    numeric_id: Annotated[
        int | None,
        Setting(
            "brokerId",
            "Number of this broker in the replica lists of partitions, which no other broker may "
            "have; empty: it keeps no replicas, and takes no part in what controls them.",
            used_with=(OWN_BROKER,),
        ),
    ] = None
    allow_mixed_cluster: Annotated[
        bool,
        Setting(
            "allowMixedCluster",
            "Join a cluster in which brokers that are not broker-ctl's are registered.",
            used_with=(OWN_BROKER,),
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
        """Name of this broker everywhere: the advertised host and the HTTP port, as Pulsar's.

        The port is that of TLS where there is no other.
        """
        port = self.web_service_port or self.web_service_port_tls
        assert port is not None, "settings without a web port are refused when they are read"
        return str(Address(self.advertised_host, port))

    @property
    def web_service_url(self) -> str | None:
        """``http://host:port``, where HTTP is served in the clear."""
        return self._url("http", self.web_service_port)

    @property
    def web_service_url_tls(self) -> str | None:
        """``https://host:port``, where HTTP is served over TLS."""
        return self._url("https", self.web_service_port_tls)

    @property
    def lookup_service_url(self) -> str | None:
        """``pulsar://host:port`` of this daemon, where it serves the binary protocol."""
        return self._url("pulsar", self.lookup_service_port)

    @property
    def lookup_service_url_tls(self) -> str | None:
        """``pulsar+ssl://host:port`` of this daemon, where it serves that over TLS."""
        return self._url("pulsar+ssl", self.lookup_service_port_tls)

    @property
    def broker_service_url(self) -> str:
        """``pulsar://host:port``."""
        return f"pulsar://{Address(self.advertised_host, self.broker_service_port)}"

    @property
    def broker_service_url_tls(self) -> str | None:
        """``pulsar+ssl://host:port``, where a TLS port is advertised."""
        return self._url("pulsar+ssl", self.broker_service_port_tls)

    def _url(self, scheme: str, port: int | None) -> str | None:
        return None if port is None else f"{scheme}://{Address(self.advertised_host, port)}"
