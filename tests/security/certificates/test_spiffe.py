"""Ids of brokers as SPIFFE IDs, there and back."""

import pytest

from broker_ctl.errors import InvalidName
from broker_ctl.security.certificates.peer_certificate import broker_id_in, broker_uri, is_spiffe_id

IDS = {
    "broker-1.example.com:8080": "spiffe://prod/broker/broker-1.example.com/8080",
    "10.0.0.1:1": "spiffe://prod/broker/10.0.0.1/1",
    "[2001:db8::1]:65535": "spiffe://prod/broker/ipv6/20010db8000000000000000000000001/65535",
    # A host of that name is another one.
    "ipv6:8080": "spiffe://prod/broker/ipv6/8080",
}


@pytest.mark.parametrize(("broker_id", "uri"), IDS.items())
def test_an_id_is_found_again_in_its_uri(broker_id: str, uri: str) -> None:
    assert broker_uri("prod", broker_id) == uri
    assert is_spiffe_id(uri)
    assert broker_id_in("prod", uri) == broker_id
    assert broker_id_in("test", uri) == ""


@pytest.mark.parametrize(
    "uri",
    [
        "spiffe://prod/broker/",
        "spiffe://prod/broker/h",
        "spiffe://prod/broker/h/0",
        "spiffe://prod/broker/h/8080/x",
        "spiffe://prod/broker/ipv6/1/8080",
        "spiffe://prod/broker/ipv6/zz/8080",
        "spiffe://prod/broker/ipv6/20010DB8000000000000000000000001/8080",
        "spiffe://prod/replica-broker/7",
        "spiffe://prod/x/broker/h/8080",
        "spiffe://prod/broker/h:1/8080",
        "https://prod/broker/h/8080",
    ],
)
def test_another_uri_has_no_id(uri: str) -> None:
    assert broker_id_in("prod", uri) == ""


@pytest.mark.parametrize(
    "broker_id", ["h", "h:", ":1", "h:x", "a/b:1", "::1:80", "[::g]:80", "..:1"]
)
def test_what_is_not_an_id_has_no_uri(broker_id: str) -> None:
    with pytest.raises(InvalidName):
        broker_uri("prod", broker_id)
