import logging
import random

import pytest

from broker_ctl.addresses import Server
from broker_ctl.store.zookeeper.dialer import Dialer

HOSTS = [("127.0.0.1", 1), ("127.0.0.2", 2), ("127.0.0.3", 3)]
GONE = Server("a", 1, "a:1", failure="no such name")


def dialer(seed: int = 1, size: int = 3) -> Dialer:
    return Dialer(HOSTS[:size], random.Random(seed))


async def test_every_server_is_tried_before_any_is_tried_again() -> None:
    one = dialer()
    rounds = [await one.next_server(30.0) for _ in range(6)]
    assert sorted((server.found, server.port) for server in rounds[:3]) == HOSTS
    assert rounds[3:] == rounds[:3]


async def test_clients_do_not_all_begin_with_the_same_server() -> None:
    first = [await dialer(seed).next_server(30.0) for seed in range(30)]
    assert {(server.found, server.port) for server in first} == set(HOSTS)


def test_a_round_has_no_pauses_and_those_between_are_short_while_the_session_lives() -> None:
    one = dialer()
    pauses = []
    for _ in range(90):
        one.failed(GONE, "refused")
        pauses.append(one.delay_s(30.0, 1.0))
    between = pauses[2::3]
    assert pauses[0::3] == pauses[1::3] == [0.0] * 30
    assert all(0.0 < pause <= 0.25 for pause in between)
    assert between[0] <= 0.05
    assert between[1] <= 0.1
    assert len(set(between)) == 30  # full jitter: a herd is spread


def test_pauses_grow_when_the_session_cannot_live_any_more() -> None:
    one = dialer()
    for _ in range(60):
        one.failed(GONE, "refused")
    longest = max(one.delay_s(30.0, 31.0) for _ in range(200))
    assert 2.0 < longest <= 3.0


def test_a_success_makes_the_next_outage_start_with_no_pause() -> None:
    one = dialer()
    for _ in range(10):
        one.failed(GONE, "refused")
    one.succeeded()
    for _ in range(2):
        one.failed(GONE, "refused")
        assert one.delay_s(30.0, 0.0) == 0.0


@pytest.mark.parametrize(
    ("timeout_s", "size", "limit_s"),
    [(30.0, 3, 2.0), (9.0, 3, 1.0), (30.0, 1, 2.0), (3.0, 3, 1 / 3), (0.6, 3, 0.2)],
)
def test_all_servers_can_be_tried_in_a_third_of_the_timeout(
    timeout_s: float,
    size: int,
    limit_s: float,
) -> None:
    assert dialer(size=size).limit_s(timeout_s) == pytest.approx(limit_s)


def test_a_long_outage_has_a_short_log(caplog: pytest.LogCaptureFixture) -> None:
    one = dialer()
    with caplog.at_level(logging.WARNING):
        for _ in range(1000):
            one.failed(GONE, "refused")
    assert len(caplog.records) == 10
    assert caplog.records[-1].getMessage() == "no session from a:1, attempt 512: refused"
