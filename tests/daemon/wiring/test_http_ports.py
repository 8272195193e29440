"""Ports of their own for administration and metrics, from the settings."""

from broker_ctl.daemon.wiring.part_rules import api_rules
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.publishing import HttpPort, PortRole, admin_urls, token_addresses
from tests.support.daemon.in_memory_daemon import settings_of

ADMIN = ("adminServicePort=8082", "adminBindAddress=127.0.0.2")
METRICS = ("metricsServicePort=9090",)


def test_ports_without_an_address_listen_where_the_public_ones_do() -> None:
    settings = settings_of(*ADMIN, *METRICS, "bindAddress=127.0.0.3", "advertisedAddress=b-1")
    rules = api_rules(settings, None, Reloader())
    assert rules.further_ports == (
        HttpPort(PortRole.ADMIN, "127.0.0.2", 8082),
        HttpPort(PortRole.METRICS, "127.0.0.3", 9090),
    )
    assert admin_urls(settings) == ("http://b-1:8082", None)
    assert api_rules(settings_of(), None, Reloader()).further_ports == ()


def test_a_host_name_at_which_they_listen_is_a_name_of_the_server() -> None:
    named = settings_of(*ADMIN, "adminBindAddress=ops.example", *METRICS)
    assert "ops.example" in api_rules(named, None, Reloader()).hosts


def test_the_console_knows_the_zookeeper_servers() -> None:
    settings = settings_of("metadataStoreUrl=zk:zk1:2181,zk2:2181/east")
    assert api_rules(settings, None, Reloader()).zookeeper == "zk1:2181,zk2:2181"
    attached = settings_of("metadataStoreUrl=", "dataPlane=pulsar", "pulsarAdminUrl=http://h")
    assert api_rules(attached, None, Reloader()).zookeeper == ""


def test_local_commands_find_their_token_at_the_admin_port() -> None:
    found = list(token_addresses(settings_of(*ADMIN, "webServicePort=8080")))
    assert found == [("127.0.0.1", 8080), ("127.0.0.2", 8082)]


def test_a_daemon_beside_a_pulsar_cluster_has_metrics_of_its_own_only() -> None:
    attached = ("dataPlane=pulsar", "pulsarAdminUrl=http://h")
    settings = settings_of(*attached, *ADMIN, *METRICS)
    rules = api_rules(settings, None, Reloader())
    assert [port.role for port in rules.further_ports] == [PortRole.METRICS]
    assert admin_urls(settings) == (None, None)
