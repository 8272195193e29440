"""Each side reads what the other writes, and refuses malformed fields by name."""

from typing import Any

import pytest

from broker_ctl import codec
from broker_ctl.core.model.load import BundleStats, ResourceUsage, SystemUsage
from broker_ctl.core.model.names import Bundle
from broker_ctl.dataplane.webhook import wire

KEY = "public/default/0x00000000_0x40000000"
BUNDLE = Bundle.parse(KEY)


def over_the_wire(value: Any) -> Any:
    return codec.decode(codec.encode(value))


def test_tokens_come_back() -> None:
    held = {BUNDLE: wire.MAX_TOKEN}
    assert wire.tokens(over_the_wire({"x": wire.tokens_json(held)}), "x") == held


def test_statistics_come_back_and_absent_fields_are_zero() -> None:
    stats = {BUNDLE: BundleStats(1.5, 2, 3, 4, 5, 6, 7, 8)}
    assert wire.statistics(over_the_wire(wire.statistics_json(stats))) == stats
    assert wire.statistics({"bundles": {KEY: {"topics": 3}}}) == {BUNDLE: BundleStats(topics=3)}


def test_statistics_of_topics_come_back_and_what_is_none_is_refused() -> None:
    stats = {"persistent://public/default/t": BundleStats(1.5, 2, 3, 4, 1, 6, 7, 8)}
    assert wire.topic_statistics(over_the_wire(wire.topic_statistics_json(stats))) == stats
    malformed: list[dict[str, Any]] = [{}, {"topics": []}, {"topics": {"t": 1}}]
    for value in [*malformed, {"topics": {"t": {"topics": -1}}}]:
        with pytest.raises(ValueError, match="expected"):
            wire.topic_statistics(value)


@pytest.mark.parametrize("usage", [None, SystemUsage(cpu=ResourceUsage(50, 800))])
def test_usage_comes_back(usage: SystemUsage | None) -> None:
    assert wire.usage(over_the_wire(wire.usage_json(usage))) == usage


def test_absent_resources_are_unknown() -> None:
    value = {"usage": {"cpu": {"usage": 1, "limit": 2}, "gpu": "?"}}
    assert wire.usage(value) == SystemUsage(cpu=ResourceUsage(1, 2))


def test_authority_comes_back() -> None:
    assert wire.authority(over_the_wire(wire.authority_json(3, 1500))) == (3, 1500)


@pytest.mark.parametrize("value", [None, [], {}, {"n": None}, {"n": "1"}, {"n": True}, {"n": 1.5}])
def test_a_value_that_is_not_an_integer_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="n: int expected"):
        wire.count(value, "n")


@pytest.mark.parametrize("number", [-1, wire.MAX_TOKEN + 1])
def test_an_integer_out_of_range_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match=r"0 to 2\^63 - 1 expected"):
        wire.count({"n": number}, "n")


@pytest.mark.parametrize("text", [None, 5, "", "public/default", "a/b/c/0x00000000_0x40000000"])
def test_a_text_that_is_not_a_bundle_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match="is"):
        wire.bundle(text)


@pytest.mark.parametrize("number", [-1, "1", None, True, float("nan"), float("inf")])
def test_a_value_that_is_not_a_rate_is_refused(number: Any) -> None:
    with pytest.raises(ValueError, match="msg_rate_in: a number from 0 on"):
        wire.statistics({"bundles": {KEY: {"msg_rate_in": number}}})


@pytest.mark.parametrize("value", [{}, {"usage": 5}, {"usage": {"cpu": None}}, []])
def test_a_value_that_is_not_a_usage_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="expected"):
        wire.usage(value)
