"""When a broker promises, and how long a promise counts."""

from dataclasses import replace

import pytest

from broker_ctl.core.failsafe.members import ListVersion, MemberList
from broker_ctl.core.failsafe.promises import (
    PROMISE_S,
    Refusal,
    Situation,
    refusal,
    usable_until_s,
)

VERSION = ListVersion(7, 3)
WILLING = Situation(MemberList(VERSION, {"a": 0, "b": 1}), has_store=False, is_acquiring=False)


def test_a_member_without_zookeeper_that_acquires_nothing_promises() -> None:
    assert refusal("a", VERSION, WILLING) is None


@pytest.mark.parametrize(
    ("asking", "version", "now", "reason"),
    [
        ("a", VERSION, replace(WILLING, members=None), Refusal.NO_LIST),
        ("a", ListVersion(7, 2), WILLING, Refusal.OTHER_LIST),
        ("a", ListVersion(7, 4), WILLING, Refusal.OTHER_LIST),
        ("a", ListVersion(6, 3), WILLING, Refusal.OTHER_LIST),
        ("c", VERSION, WILLING, Refusal.NO_MEMBER),
        ("a", VERSION, replace(WILLING, has_store=True), Refusal.HAS_STORE),
        ("a", VERSION, replace(WILLING, is_acquiring=True), Refusal.ACQUIRING),
    ],
)
def test_nothing_is_promised_otherwise(
    asking: str, version: ListVersion, now: Situation, reason: Refusal
) -> None:
    assert refusal(asking, version, now) is reason


def test_a_promise_is_used_for_less_than_it_binds() -> None:
    assert usable_until_s(100.0) == pytest.approx(100.0 + PROMISE_S * 0.99)
