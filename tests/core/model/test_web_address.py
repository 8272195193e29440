"""Web addresses of brokers, and lists of hosts."""

import pytest

from broker_ctl.core.model.broker import AllowedHosts, WebAddress, is_broker_id, web_address_host_of


@pytest.mark.parametrize(
    ("text", "scheme", "host"),
    [
        ("http://b-1.example.com:8080", "http", "b-1.example.com"),
        ("https://B_1.Example.com.:8443/", "https", "b_1.example.com"),
        ("http://10.0.0.1", "http", "10.0.0.1"),
        ("http://[2001:DB8:0::1]:80", "http", "2001:db8::1"),
    ],
)
def test_an_address_has_a_scheme_and_a_host(text: str, scheme: str, host: str) -> None:
    found = WebAddress.parse(text)
    assert (found.scheme, found.host) == (scheme, host)
    assert found.text == text.removesuffix("/")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "b:1",
        "//b:1",
        "ftp://b:1",
        "HTTP://b:1",
        "http://",
        "http://user@b:1",
        "http://good:1@evil:1",
        "http://good\\@evil:1",
        "http://good:1\\.evil",
        "http://b:1/x",
        "http://b:1?x",
        "http://b:1#x",
        "http://b:1//",
        "http://b:123456",
        "http://b:x",
        "http:// b:1",
        "http://b:1\n",
        "http://b\t:1",
        "http://b%2e:1",
        "http://\u0431:1",
        "http://[b]:1",
    ],
)
def test_nothing_else_is_an_address(text: str) -> None:
    with pytest.raises(ValueError, match="is not http://host:port"):
        WebAddress.parse(text)


@pytest.mark.parametrize(
    ("broker_id", "host"),
    [("B-1:8080", "b-1"), ("[::1]:8080", "::1"), ("b-1", "b-1"), ("", ""), ("x:y", "x:y")],
)
def test_a_broker_id_has_a_host(broker_id: str, host: str) -> None:
    assert web_address_host_of(broker_id) == host


def test_a_list_has_hosts_and_domains() -> None:
    hosts = AllowedHosts.parse(["B-1", ".Example.com", "[::1]", "10.0.0.1"])
    for host in ("b-1", "B-1.", "a.example.com", "a.b.EXAMPLE.com", "0:0::1", "10.0.0.1"):
        assert hosts.allows(host), host
    for host in ("b-2", "example.com", "example.com.evil", "evilexample.com", "10.0.0.2", ""):
        assert not hosts.allows(host), host


def test_around_a_name_of_a_private_network_is_its_domain() -> None:
    hosts = AllowedHosts.around(["admin.pulsar.svc.cluster.local"])
    for host in ("admin", "b-1", "b.x"):
        assert hosts.allows(f"{host}.pulsar.svc.cluster.local"), host
    for host in ("b.other.svc.cluster.local", "pulsar.svc.cluster.local", "b", "10.0.0.1"):
        assert not hosts.allows(host), host
    assert AllowedHosts.around(["a.pulsar.svc"]).allows("b.pulsar.svc")


@pytest.mark.parametrize(
    "host",
    [
        *("pulsar.com", "pulsar.co.uk", "a.pulsar.example.com", "pulsar.local.com", "a.local"),
        *("pulsar-1.eu-west-1.elb.amazonaws.com", "a.azurewebsites.net", "pulsar.github.io"),
    ],
)
def test_around_a_name_that_others_may_have_neighbours_of_is_that_name_alone(host: str) -> None:
    hosts = AllowedHosts.around([host])
    domain = host.partition(".")[2]
    assert hosts.allows(host)
    for other in (f"evil.{domain}", f"x.{host}", domain, "evil"):
        assert not hosts.allows(other), other


def test_around_a_name_without_a_domain_are_other_such_names() -> None:
    hosts = AllowedHosts.around(["pulsar-1"])
    assert hosts.allows("pulsar-2")
    # To a resolver these are addresses.
    for host in ("2130706434", "0x7f000002", "pulsar-2.evil", "127.0.0.2", "::2"):
        assert not hosts.allows(host), host


def test_around_an_ip_address_is_that_address_alone() -> None:
    hosts = AllowedHosts.around(["127.0.0.1", "::1"])
    assert hosts.allows("127.0.0.1")
    assert hosts.allows("::1")
    for host in ("127.0.0.2", "x.0.0.1", "b", "::2"):
        assert not hosts.allows(host), host


HOSTILE = (
    "",
    "b",
    "b:",
    ":1",
    "-oProxyCommand=touch x #:8080",
    "-b:1",
    "--user=root:1",
    "$(touch${IFS}x):8080",
    "`x`:1",
    "b;x:1",
    "b x:1",
    "b\n:1",
    "b:1\n",
    "../b:1",
    "a/b:1",
    "u@b:1",
    "b:-1",
    "b:x",
    "b:123456",
    "b\u00e4:1",
    "[::g]:1",
    "[-::1]:1",
    "::1:80",
    "b:1?x",
    "b%2f:1",
    f"{'b' * 300}:1",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_not_host_and_port_fails_as_a_broker_id(text: str) -> None:
    assert not is_broker_id(text)


@pytest.mark.parametrize("text", ["b:1", "b_1.ns.svc:65535", "10.0.0.1:8080", "[2001:db8::1]:80"])
def test_a_host_and_a_port_are_a_broker_id(text: str) -> None:
    assert is_broker_id(text)
