"""Names, addresses and ports of this broker."""

import socket
from dataclasses import dataclass
from typing import Annotated, Final

from broker_ctl.settings.addresses import (
    Address,
    Listener,
    LookupListener,
    check_host,
    check_published_host,
    is_loopback,
)
from broker_ctl.settings.conditions import OWN_BROKER
from broker_ctl.settings.schema import Setting

_HOST_WORDS: Final = "a host name or an IP address"


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Broker: its names, addresses and ports."""

    cluster_name: Annotated[
        str,
        Setting(
            "clusterName",
            "Name of the cluster to which this broker belongs.",
            matches=r"[-=:.\w]+",
            allowed="letters, digits and -=:._",
        ),
    ] = "standalone"
    bind_address: Annotated[
        str,
        Setting(
            "bindAddress",
            "Address on which the servers listen. An address other than loopback requires "
            "authentication.",
            check=check_host,
            allowed=_HOST_WORDS,
        ),
    ] = "127.0.0.1"
    advertised_address: Annotated[
        str,
        Setting(
            "advertisedAddress",
            "Host name or IP address published to clients and other brokers; empty: bindAddress "
            "if that is loopback, otherwise this machine's host name.",
            check=check_published_host,
            allowed=_HOST_WORDS,
        ),
    ] = ""
    web_service_port: Annotated[
        int | None,
        Setting(
            "webServicePort",
            "Port of the HTTP server (lookup, admin, metrics, health); together with the "
            "advertised host it is the name of the broker. Empty: no HTTP without TLS; the "
            "name then has webServicePortTls.",
            at_least=1,
            at_most=65_535,
            is_off_when_empty=True,
        ),
    ] = 8080
    web_service_port_tls: Annotated[
        int | None,
        Setting(
            "webServicePortTls",
            "Port of the HTTP server with TLS; empty: none.",
            at_least=1,
            at_most=65_535,
        ),
    ] = None
    lookup_service_port: Annotated[
        int | None,
        Setting(
            "lookupServicePort",
            "Port of this daemon for lookups in Pulsar's binary protocol; the broker process "
            "has brokerServicePort. Empty: none.",
            at_least=1,
            at_most=65_535,
            used_with=(OWN_BROKER,),
        ),
    ] = None
    lookup_service_port_tls: Annotated[
        int | None,
        Setting(
            "lookupServicePortTls",
            "Port of this daemon for lookups in Pulsar's binary protocol with TLS; empty: none.",
            at_least=1,
            at_most=65_535,
            used_with=(OWN_BROKER,),
        ),
    ] = None
    broker_service_port: Annotated[
        int | None,
        Setting(
            "brokerServicePort",
            "Port of the broker process that lookups return. It is only advertised, except "
            "with dataPlane=simulated and a brokerId: followers then fetch the replicas from "
            "this port. Empty: clients connect with TLS only.",
            at_least=1,
            at_most=65_535,
            is_off_when_empty=True,
            used_with=(OWN_BROKER,),
        ),
    ] = 6650
    broker_service_port_tls: Annotated[
        int | None,
        Setting(
            "brokerServicePortTls",
            "TLS port of the broker process that lookups return; only advertised.",
            at_least=1,
            at_most=65_535,
            used_with=(OWN_BROKER,),
        ),
    ] = None
    advertised_listeners: Annotated[
        tuple[Listener, ...],
        Setting(
            "advertisedListeners",
            "Addresses of the broker process, by listener name, for clients in several networks; "
            "http and https are what a lookup by that listener's name returns as web address.",
            allowed="name:pulsar://host:port (or pulsar+ssl, http, https)",
            used_with=(OWN_BROKER,),
        ),
    ] = ()
    lookup_listeners: Annotated[
        tuple[LookupListener, ...],
        Setting(
            "lookupAdvertisedListeners",
            "Addresses of lookupServicePort and lookupServicePortTls, by the listener names of "
            "advertisedListeners: a redirect of a binary lookup names the one of the client's "
            "listener. A listener without one: the advertised address.",
            allowed="name:pulsar://host:port (or pulsar+ssl)",
            used_with=(OWN_BROKER,),
        ),
    ] = ()
    takes_persistent_topics: Annotated[
        bool,
        Setting(
            "enablePersistentTopics",
            "Whether the broker process serves persistent topics. If false, bundles with "
            "persistent topics are placed on this broker only by an isolation policy.",
            used_with=(OWN_BROKER,),
        ),
    ] = True
    takes_non_persistent_topics: Annotated[
        bool,
        Setting(
            "enableNonPersistentTopics",
            "Whether the broker process serves non-persistent topics. If false, bundles with "
            "non-persistent topics are placed on this broker only by an isolation policy.",
            used_with=(OWN_BROKER,),
        ),
    ] = True
    protocols: Annotated[
        tuple[str, ...],
        Setting(
            "advertisedProtocols",
            "Protocol handlers of the broker process and the address of each; published in the "
            "load report for other brokers.",
            matches=r"[-.A-Za-z0-9_]+=[!-+.-~-]+",
            allowed="name=what it advertises",
            used_with=(OWN_BROKER,),
        ),
    ] = ()
    internal_listener_name: Annotated[
        str,
        Setting(
            "internalListenerName",
            "The one of advertisedListeners whose broker address is that of clients that name no "
            "listener; empty: the first. For a scheme that it lacks, the first that has it counts, "
            "and after these the advertised address.",
            matches=r"[\w.-]+",
            allowed="letters, digits and ._-",
            used_with=(OWN_BROKER,),
        ),
    ] = ""
    numeric_id: Annotated[
        int | None,
        Setting(
            "brokerId",
            "Numeric id of this broker in the replica lists of partitions, unique in the "
            "cluster; empty: the broker has no replicas and cannot become the partition "
            "controller.",
            used_with=(OWN_BROKER,),
        ),
    ] = None
    rack: Annotated[
        str,
        Setting(
            "brokerRack",
            "Rack, or availability zone, of this broker, as Kafka's broker.rack: brokers of one "
            "rack may fail together. Replicas of a partition are spread over racks once every "
            "broker has one. It is also the broker's failure domain unless an operator has put "
            "the broker into another one. Empty: unknown.",
            matches=r"[-._:/\w]{1,249}",
            allowed="letters, digits and -._:/, at most 249 characters",
            used_with=(OWN_BROKER,),
        ),
    ] = ""
    allow_mixed_cluster: Annotated[
        bool,
        Setting(
            "allowMixedCluster",
            "Whether this broker may join a cluster in which brokers other than broker-ctl's "
            "are registered.",
            used_with=(OWN_BROKER,),
        ),
    ] = False

    @property
    def advertised_host(self) -> str:
        """The host that is advertised to clients and other brokers."""
        if self.advertised_address:
            return self.advertised_address
        if is_loopback(self.bind_address):
            return "127.0.0.1" if self.bind_address == "localhost" else self.bind_address
        return socket.gethostname()

    @property
    def broker_id(self) -> str:
        """Id of this broker: the advertised host and the HTTP port, as in Pulsar.

        Without an HTTP port, the port is that of HTTPS.
        """
        port = self.web_service_port or self.web_service_port_tls
        assert port is not None, "settings without a web port are refused when they are read"
        return str(Address(self.advertised_host, port))

    @property
    def web_service_url(self) -> str | None:
        """``http://host:port``; None without HTTP in the clear."""
        return self._url("http", self.web_service_port)

    @property
    def web_service_url_tls(self) -> str | None:
        """``https://host:port``; None without HTTP over TLS."""
        return self._url("https", self.web_service_port_tls)

    @property
    def lookup_service_url(self) -> str | None:
        """``pulsar://host:port`` of this daemon; None without the binary protocol."""
        return self._url("pulsar", self.lookup_service_port)

    @property
    def lookup_service_url_tls(self) -> str | None:
        """``pulsar+ssl://host:port`` of this daemon; None without the binary protocol over TLS."""
        return self._url("pulsar+ssl", self.lookup_service_port_tls)

    @property
    def broker_service_url(self) -> str | None:
        """``pulsar://host:port`` of the broker process; None without a port in the clear."""
        return self._internal("pulsar") or self._url("pulsar", self.broker_service_port)

    @property
    def broker_service_url_tls(self) -> str | None:
        """``pulsar+ssl://host:port`` of the broker process; None without a TLS port."""
        return self._internal("pulsar+ssl") or self._url("pulsar+ssl", self.broker_service_port_tls)

    def _internal(self, scheme: str) -> str | None:
        """The address of the internal listener, else of the first one, that has this scheme."""
        having = [one for one in self.advertised_listeners if one.scheme == scheme]
        named = (one for one in having if one.name == self.internal_listener_name)
        found = next(named, having[0] if having else None)
        return None if found is None else found.url

    def _url(self, scheme: str, port: int | None) -> str | None:
        return None if port is None else f"{scheme}://{Address(self.advertised_host, port)}"
