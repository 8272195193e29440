"""One system of units, in tables and in JSON."""

from typing import Any

import pytest

from broker_ctl.cli.runtime.output import label_of, print_facts, unit_of, value_text
from tests.support.rules.json_units import out_of_system

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("name", "value", "label", "text"),
    [
        ("usage_ratio", 0.419, "usage", "41.9%"),
        ("throughput_bytes_per_s", 5.1 * MIB, "throughput", "5.1 MiB/s"),
        ("cache_bytes", 2048, "cache", "2.0 KiB"),
        ("long_msg_per_s", 12_345.6, "long", "12,346 msg/s"),
        ("msg_per_s", 7.25, "messages", "7.25 msg/s"),
        ("age_s", 2.78, "age", "2.8 s"),
        ("eta_s", 125, "eta", "2 min 5 s"),
        ("taken_at_ms", 1_795_364_369_884, "taken at", "2026-11-22T16:19:29Z"),
        ("started_ms", 10**18, "started", "-"),
        ("usage_imbalance", 1.07, "usage imbalance", 1.07),
        ("is_leader", False, "is leader", False),
        ("usage_ratio", None, "usage", None),
    ],
)
def test_a_unit_at_the_end_of_a_name_is_shown_in_words(
    name: str, value: Any, label: str, text: Any
) -> None:
    assert (label_of(name), value_text(name, value)) == (label, text)


def test_the_longest_ending_says_the_unit() -> None:
    found = unit_of("throughput_bytes_per_s")
    assert found is not None
    assert found.suffix == "_bytes_per_s"
    assert unit_of("brokers") is None


def test_tables_of_facts_show_units(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts("", {"usage_ratio": 0.5, "brokers": [{"broker": "b:1", "age_s": 3.0}]})
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["usage", "50.0%"] in lines
    assert ["broker", "age"] in lines
    assert ["b:1", "3", "s"] in lines


@pytest.mark.parametrize(
    ("value", "faults"),
    [
        ({"usage": 0.4}, ["usage"]),
        ({"brokers": [{"cpu_percent": 40}]}, ["brokers.cpu_percent"]),
        ({"settle_min": 3}, ["settle_min"]),
        ({"some": 1.5}, ["some"]),
        ({"usage_ratio": {"cpu": 0.4}, "bundles": 3, "taken_at_ms": 5, "took_s": 0.5}, []),
        ({"usage_imbalance": 1.5, "under_min_isr": 1, "rates": [{"in_bytes_per_s": 1.0}]}, []),
    ],
)
def test_what_has_no_unit_or_another_one_is_found(value: Any, faults: list[str]) -> None:
    assert list(out_of_system(value)) == faults
