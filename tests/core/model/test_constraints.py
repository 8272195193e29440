import pytest

from broker_ctl.core.model.broker import NO_CONSTRAINTS, Constraints, IsolationPolicy, host_of
from broker_ctl.core.model.names import Namespace

PAID = IsolationPolicy("paid", ("paid/.*",), ("broker-[12]",), ("broker-[23]",))
REST = IsolationPolicy("rest", (".*/.*",), ("broker-9",))
BOTH = Constraints((PAID, REST))


@pytest.mark.parametrize(
    ("broker_id", "host"),
    [("broker-1:8080", "broker-1"), ("broker-1", "broker-1"), ("[::1]:8080", "[::1]")],
)
def test_brokers_are_matched_by_host(broker_id: str, host: str) -> None:
    assert host_of(broker_id) == host


def test_patterns_match_whole_names() -> None:
    assert PAID.covers(Namespace("paid", "orders"))
    assert not PAID.covers(Namespace("unpaid", "orders"))
    assert PAID.is_primary("broker-1:8080")
    assert not PAID.is_primary("broker-12:8080")
    assert not PAID.is_primary("my-broker-1:8080")


def test_a_broker_that_is_primary_and_secondary_counts_as_primary() -> None:
    assert PAID.is_primary("broker-2:8080")
    assert not PAID.is_secondary("broker-2:8080")
    assert PAID.is_secondary("broker-3:8080")


def test_the_first_policy_that_matches_counts() -> None:
    assert BOTH.policy_of(Namespace("paid", "orders")) is PAID
    assert BOTH.policy_of(Namespace("free", "orders")) is REST
    assert NO_CONSTRAINTS.policy_of(Namespace("paid", "orders")) is None


def test_a_broker_is_kept_for_those_whose_primary_it_is() -> None:
    assert BOTH.reserved_by("broker-1:8080") is PAID
    assert BOTH.reserved_by("broker-9:8080") is REST
    assert BOTH.reserved_by("broker-3:8080") is None


def test_brokers_in_no_domain_share_one() -> None:
    constraints = Constraints(domain_of={"b1:80": "rack-1"})
    assert constraints.domain("b1:80") == "rack-1"
    assert constraints.domain("b2:80") == constraints.domain("b3:80") != "rack-1"
