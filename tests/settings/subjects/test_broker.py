"""The names and URLs that follow from addresses and ports."""

import socket

import pytest

from broker_ctl.settings.addresses import Listener
from broker_ctl.settings.subjects.broker import BrokerSettings


def test_on_loopback_a_broker_is_known_as_127_0_0_1() -> None:
    broker = BrokerSettings(bind_address="localhost", web_service_port=8081)
    assert broker.broker_id == "127.0.0.1:8081"
    assert broker.web_service_url == "http://127.0.0.1:8081"
    assert broker.broker_service_url == "pulsar://127.0.0.1:6650"
    assert broker.web_service_url_tls is None
    assert broker.broker_service_url_tls is None


@pytest.mark.parametrize("address", ["127.0.0.3", "::1"])
def test_on_another_loopback_address_a_broker_is_known_by_it(address: str) -> None:
    """Nobody listens at 127.0.0.1 there."""
    assert BrokerSettings(bind_address=address).advertised_host == address


def test_off_loopback_a_broker_is_known_by_its_host_name() -> None:
    assert BrokerSettings(bind_address="0.0.0.0").advertised_host == socket.gethostname()


def test_an_advertised_address_wins() -> None:
    broker = BrokerSettings(
        advertised_address="2001:db8::1", web_service_port_tls=8443, broker_service_port_tls=6651
    )
    assert broker.broker_id == "[2001:db8::1]:8080"
    assert broker.web_service_url_tls == "https://[2001:db8::1]:8443"
    assert broker.broker_service_url_tls == "pulsar+ssl://[2001:db8::1]:6651"


def test_without_a_port_in_the_clear_a_broker_is_known_by_that_of_tls() -> None:
    broker = BrokerSettings(web_service_port=None, web_service_port_tls=8443)
    assert broker.broker_id == "127.0.0.1:8443"
    assert broker.web_service_url is None
    assert broker.web_service_url_tls == "https://127.0.0.1:8443"


@pytest.mark.parametrize("port", [None, 6680])
def test_the_port_for_lookups_is_this_daemons_and_not_the_broker_process_s(
    port: int | None,
) -> None:
    broker = BrokerSettings(
        advertised_address="b", lookup_service_port=port, lookup_service_port_tls=port
    )
    assert broker.lookup_service_url == (port and "pulsar://b:6680")
    assert broker.lookup_service_url_tls == (port and "pulsar+ssl://b:6680")
    assert broker.broker_service_url == "pulsar://b:6650"


def listeners(text: str) -> tuple[Listener, ...]:
    return tuple(Listener.parse(one) for one in text.split(","))


@pytest.mark.parametrize(
    ("internal", "url", "url_tls"),
    [
        ("", "pulsar://one:1", "pulsar+ssl://two:4"),
        ("a", "pulsar://one:1", "pulsar+ssl://two:4"),
        ("b", "pulsar://two:3", "pulsar+ssl://two:4"),
        ("c", "pulsar://one:1", "pulsar+ssl://three:6"),
    ],
)
def test_the_internal_listener_is_the_address_of_clients_without_one(
    internal: str, url: str, url_tls: str
) -> None:
    """As in Pulsar: the first stands in for a scheme that the named one lacks."""
    broker = BrokerSettings(
        advertised_listeners=listeners(
            "a:pulsar://one:1,a:http://one:2,b:pulsar://two:3,b:pulsar+ssl://two:4,"
            "c:https://three:5,c:pulsar+ssl://three:6"
        ),
        internal_listener_name=internal,
    )
    assert (broker.broker_service_url, broker.broker_service_url_tls) == (url, url_tls)
    # The name of the broker and its HTTP server stay at the advertised address.
    assert broker.broker_id == "127.0.0.1:8080"


def test_without_a_port_in_the_clear_clients_have_tls_alone() -> None:
    broker = BrokerSettings(broker_service_port=None, broker_service_port_tls=6651)
    assert broker.broker_service_url is None
    assert broker.broker_service_url_tls == "pulsar+ssl://127.0.0.1:6651"
