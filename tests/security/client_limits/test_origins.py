"""Which addresses are one client."""

from unittest.mock import Mock

import pytest

from broker_ctl.security.client_limits import origin_of


@pytest.mark.parametrize(
    ("peer", "origin"),
    [
        (("192.0.2.1", 4711), "192.0.2.1"),
        (("2001:db8:1:2:3:4:5:6", 4711, 0, 0), "2001:db8:1:2::/64"),
        (("2001:db8:1:2:ffff::1", 4711, 0, 0), "2001:db8:1:2::/64"),
        (("2001:db8:1:3::1", 4711, 0, 0), "2001:db8:1:3::/64"),
        (("::ffff:192.0.2.1", 4711, 0, 0), "192.0.2.1"),
        (("fe80::1%eth0", 4711, 0, 2), "fe80::/64"),
        ("/run/socket", "an unknown address"),
        (None, "an unknown address"),
    ],
)
def test_a_network_of_ipv6_is_one_client(peer: object, origin: str) -> None:
    assert origin_of(Mock(get_extra_info=lambda _: peer)) == origin
