"""Addresses as settings spell them."""

import re

import pytest

from broker_ctl.settings.addresses import (
    Address,
    HttpUrl,
    Listener,
    LookupListener,
    StoreUrl,
    check_published_host,
    is_loopback,
)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("zk:h1:2181,h2:2182/chroot", "zk:h1:2181,h2:2182/chroot"),
        ("h1:2181,h2/chroot", "zk:h1:2181,h2:2181/chroot"),
        ("h1", "zk:h1:2181"),
        ("zk:h1, h2 ,h3/a/b.c", "zk:h1:2181,h2:2181,h3:2181/a/b.c"),
        ("zk:h1/", "zk:h1:2181"),
        ("zk:[::1]:2000,127.0.0.1", "zk:[::1]:2000,127.0.0.1:2181"),
    ],
)
def test_a_store_url_is_read_in_all_of_pulsars_spellings(text: str, written: str) -> None:
    url = StoreUrl.parse(text)
    assert str(url) == written
    assert StoreUrl.parse(written) == url


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("zk:", "no host"),
        ("zk:/chroot", "no host"),
        ("zk://h1:2181", "no host"),
        ("h1,,h2", "no host in ''"),
        ("zk::2181", "no host in ':2181'"),
        ("h1:zk", "port 'zk' in 'h1:zk' is not 1 to 65535"),
        ("h1:0", "port '0' in 'h1:0' is not 1 to 65535"),
        ("h1:65536", "port '65536' in 'h1:65536' is not 1 to 65535"),
        ("h1:", "port '' in 'h1:' is not 1 to 65535"),
        ("h1:2181chroot", "port '2181chroot' in 'h1:2181chroot' is not 1 to 65535"),
        ("h 1:2181", "'h 1' is not a host"),
        ("[nonsense]:1", "'nonsense' is not a host"),
        ("999.1.1.1", "'999.1.1.1' is not an IP address"),
        ("a:b:c", "'a:b:c' is not host:port"),
        ("h1/../a", "chroot '/../a' is not an absolute path"),
        ("h1/a//b", "chroot '/a//b' is not an absolute path"),
        (
            "h1/a # production",
            "chroot '/a # production' has a blank or #: a comment has a line of its own",
        ),
        ("h1/a/", "chroot '/a/' is not an absolute path"),
        ("h1/a,h2/b", "chroot '/a,h2/b' is not an absolute path"),
        ("etcd:http://h1:2379", "ZooKeeper is the only metadata store"),
    ],
)
def test_a_malformed_store_url_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(complaint)}$"):
        StoreUrl.parse(text)


def test_a_listener_has_name_scheme_and_address() -> None:
    listener = Listener.parse("external:pulsar+ssl://[2001:db8::1]:6651")
    assert listener == Listener("external", "pulsar+ssl", Address("2001:db8::1", 6651))
    assert str(listener) == "external:pulsar+ssl://[2001:db8::1]:6651"
    assert listener.url == "pulsar+ssl://[2001:db8::1]:6651"


@pytest.mark.parametrize(
    "text", ["pulsar://h:1", "a:ftp://h:1", "a:pulsar://h", "a:pulsar://", ":pulsar://h:1", "a"]
)
def test_a_malformed_listener_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not name:scheme://host:port|scheme|port|no host"):
        Listener.parse(text)


def test_an_http_url_gets_its_port_and_loses_its_last_slash() -> None:
    assert str(HttpUrl.parse("http://localhost/")) == "http://localhost:80"
    assert str(HttpUrl.parse("https://b:9000/dataplane/v1/")) == "https://b:9000/dataplane/v1"


@pytest.mark.parametrize(
    "text",
    ["localhost:9000", "ftp://h", "http://", "http://u:p@h", "http://h/?q", "http://h/#f"],
)
def test_a_malformed_http_url_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"URL|no host"):
        HttpUrl.parse(text)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example.com", False),
    ],
)
def test_only_addresses_of_this_machine_are_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    "host", ["h", "a.example.com", "10.0.0.1", "::1", "fd00::1", "9to5", "a_b"]
)
def test_a_host_that_may_be_published(host: str) -> None:
    check_published_host(host)


@pytest.mark.parametrize(
    ("host", "complaint"),
    [
        ("1:2", "not an IP address"),
        (":::", "not an IP address"),
        ("cafe:8080", "not an IP address"),
        ("999.1.1.1", "not an IP address"),
        ("10.1", "not an IP address"),
        ("a b", "not a host"),
        ("-a", "not a host"),
        ("0.0.0.0", "all addresses"),
        ("::", "all addresses"),
        ("::ffff:0.0.0.0", "all addresses"),
        ("224.0.0.1", "no single machine"),
        ("255.255.255.255", "no single machine"),
        ("ff02::1", "no single machine"),
        ("fe80::1", "its own link only"),
    ],
)
def test_a_host_that_nobody_can_reach_is_not_published(host: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        check_published_host(host)
    written = f"[{host}]" if ":" in host else host
    with pytest.raises(ValueError, match=r"host|IP address|machine|link"):
        Listener.parse(f"a:http://{written}:1")


def test_brackets_are_for_a_host_with_a_port() -> None:
    with pytest.raises(ValueError, match="without brackets"):
        check_published_host("[fd00::1]")


def test_a_lookup_listener_is_of_the_binary_protocol() -> None:
    assert str(LookupListener.parse("a:pulsar+ssl://h:1")) == "a:pulsar+ssl://h:1"
    with pytest.raises(ValueError, match="scheme 'http' is not one of pulsar, pulsar"):
        LookupListener.parse("a:http://h:1")
