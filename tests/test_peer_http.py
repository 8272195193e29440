"""Requests to brokers: which addresses count, and what is counted and logged of the others."""

import logging
from dataclasses import replace

import pytest
from aiohttp import web

from broker_ctl.core.model.broker import AllowedHosts, BrokerUrls
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient
from broker_ctl.peer_http import AddressSource, PeerAddresses, PeerHttp, urls_at
from tests.support.http.web_server import serving
from tests.support.time.waiting import PATIENCE_S

ID = "b-1:8080"
OPEN, PROTECTED = "http://b-1:8080", "https://b-1:8443"


def test_the_host_of_the_id_is_called() -> None:
    addresses = PeerAddresses()
    assert addresses.url_of(BrokerUrls(ID, OPEN), AddressSource.OWNER) == OPEN
    assert addresses.url_of(BrokerUrls(ID, "http://B-1:9/"), AddressSource.OWNER) == "http://B-1:9"
    assert sum(addresses.refused.values()) == 0


def test_https_comes_first() -> None:
    assert PeerAddresses().url_of(BrokerUrls(ID, OPEN, PROTECTED), AddressSource.OWNER) == PROTECTED


def test_a_broker_is_called_at_its_address_for_administration() -> None:
    addresses = PeerAddresses()
    separate = BrokerUrls(ID, OPEN, PROTECTED, admin_url="http://b-1:8082")
    assert addresses.url_of(separate, AddressSource.OWNER) == "http://b-1:8082"
    separate = replace(separate, admin_url_tls="https://b-1:8083")
    assert addresses.url_of(separate, AddressSource.OWNER) == "https://b-1:8083"
    forged = replace(separate, admin_url="http://evil:1", admin_url_tls="https://evil:2")
    with pytest.raises(HttpError, match="is not at the host"):
        addresses.url_of(forged, AddressSource.OWNER)
    bound = addresses.bind(ID, forged, AddressSource.OWNER)
    assert bound.for_administration == (OPEN, PROTECTED)


@pytest.mark.parametrize(
    "urls",
    [
        BrokerUrls(ID, "http://evil:8080"),
        BrokerUrls(ID, "http://b-1:8080@evil"),
        BrokerUrls(ID, "http://b-1:8080/x?"),
        BrokerUrls(ID, "ftp://b-1:8080"),
        BrokerUrls(ID, OPEN, "https://evil:8443"),
        # In the clear where the other address is over TLS.
        BrokerUrls(ID, OPEN, "http://b-1:8443"),
    ],
)
def test_other_addresses_are_refused_and_counted(urls: BrokerUrls) -> None:
    addresses = PeerAddresses()
    with pytest.raises(HttpError, match="the web address"):
        addresses.url_of(urls, AddressSource.OWNER)
    assert addresses.refused == dict.fromkeys(AddressSource, 0) | {AddressSource.OWNER: 1}


def test_with_tls_nobody_is_called_in_the_clear() -> None:
    addresses = PeerAddresses()
    with pytest.raises(HttpError, match="is not https"):
        addresses.url_of(BrokerUrls(ID, OPEN), AddressSource.OWNER, requires_tls=True)
    both = BrokerUrls(ID, OPEN, PROTECTED)
    assert addresses.url_of(both, AddressSource.OWNER, requires_tls=True) == PROTECTED


def test_a_list_replaces_the_host_of_the_id() -> None:
    addresses = PeerAddresses(AllowedHosts.parse([".example.com"]))
    elsewhere = BrokerUrls(ID, "http://b-1.example.com:8080")
    assert addresses.url_of(elsewhere, AddressSource.OWNER) == elsewhere.web_url
    with pytest.raises(HttpError, match=r"not at a host in peerAllowedHosts \(\.example\.com\)"):
        addresses.url_of(BrokerUrls("evil:1", "http://evil:1"), AddressSource.OWNER)


def test_bound_addresses_lack_what_is_refused_and_have_the_name_of_the_node() -> None:
    addresses = PeerAddresses()
    claimed = BrokerUrls("evil:1", "http://evil:1", PROTECTED, "pulsar://x:1")
    for _ in range(3):
        bound = addresses.bind(ID, claimed, AddressSource.REGISTRATION)
        assert bound == BrokerUrls(ID, None, PROTECTED, "pulsar://x:1")
    # A record is judged once, and again when it has changed.
    assert addresses.refused[AddressSource.REGISTRATION] == 1
    addresses.bind(ID, BrokerUrls(ID, "http://evil:2"), AddressSource.REGISTRATION)
    assert addresses.refused[AddressSource.REGISTRATION] == 2


def test_a_refusal_is_logged_once_for_each_broker_and_forges_no_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    addresses = PeerAddresses()
    with caplog.at_level(logging.WARNING):
        for port in range(3):
            addresses.bind(ID, BrokerUrls(ID, f"http://evil:{port}"), AddressSource.REGISTRATION)
        addresses.bind(
            "b\n2:1", BrokerUrls("", "http://user:pass@evil\nx"), AddressSource.REGISTRATION
        )
    assert len(caplog.messages) == 2
    assert "registration" in caplog.messages[0]
    assert "http://evil:0" in caplog.messages[0]
    assert "peerAllowedHosts" in caplog.messages[0]
    assert "\n" not in caplog.messages[1]
    assert "pass" not in caplog.messages[1]


def test_other_hosts_share_the_counts() -> None:
    shared = PeerAddresses()
    limited = shared.limited_to(AllowedHosts(("a",)), "itsKey")
    with pytest.raises(HttpError, match=r"itsKey \(a\)"):
        limited.url_of(BrokerUrls("b:1", "http://b:1"), AddressSource.PULSAR)
    assert shared.refused[AddressSource.PULSAR] == 1


async def test_only_the_registration_says_where_a_broker_is_called() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=request.path)

    app = web.Application()
    app.router.add_get("/x", answer)
    async with serving(app) as url, HttpClient(timeout_s=PATIENCE_S, max_body_bytes=99) as http:
        broker_id = url.removeprefix("http://")
        live = {broker_id: BrokerUrls(broker_id, url)}
        peers = PeerHttp(http, PeerAddresses(), live.get)
        forged = BrokerUrls(broker_id, "http://127.0.0.2:1")
        reply = await peers.request("GET", forged, "/x", AddressSource.OWNER)
        assert reply.body == b"/x"
        protected = PeerHttp(http, PeerAddresses(), live.get, requires_tls=True)
        with pytest.raises(HttpError, match="is not https"):
            await protected.request("GET", live[broker_id], "/x", AddressSource.OWNER)
        live.clear()
        with pytest.raises(HttpError, match="not at the host of that id"):
            await peers.request("GET", forged, "/x", AddressSource.OWNER)
        with pytest.raises(HttpError, match="is not registered"):
            await peers.request("GET", urls_at(broker_id, url), "/x", AddressSource.OWNER)


def test_a_single_address_is_of_its_scheme() -> None:
    assert urls_at(ID, OPEN) == BrokerUrls(ID, web_url=OPEN)
    assert urls_at(ID, PROTECTED) == BrokerUrls(ID, web_url_tls=PROTECTED)
