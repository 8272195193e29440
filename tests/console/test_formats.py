"""Numbers have units, and unknown ones a dash."""

from typing import Any

import pytest

from broker_ctl.console import render


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (render.percent(0.3894), "38.9 %"),
        (render.percent(None), "\N{EN DASH}"),
        (render.ratio_text(1.0612), "1.06"),
        (render.rate(12.4), "12/s"),
        (render.rate(19_503.0), "19.5 k/s"),
        (render.rate(3.2e9), "3.2 G/s"),
        (render.throughput(2**20), "1.0 MiB/s"),
        (render.duration(0.84), "0.8 s"),
        (render.duration(-3.0), "0.0 s"),
        (render.duration(200), "3 min 20 s"),
        (render.duration(7500), "2 h 5 min"),
        (render.duration(90_000), "1 d 1 h"),
        (render.moment(1_795_492_229_624), "2026-11-24T03:50:29Z"),
        (render.moment(None), ""),
        (render.clock_time(1_795_492_229_624), "03:50:29 UTC"),
        (render.words("too_few_topics"), "too few topics"),
        (render.counted(1, "bundle"), "1 bundle"),
        (render.counted(1200, "bundle"), "1,200 bundles"),
    ],
)
def test_a_number_is_written_with_its_unit(text: str, expected: str) -> None:
    assert text == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("usage_at_best_ratio", 0.6097, "usage at best: 61.0 %"),
        ("throughput_bytes_per_s", 2**20, "throughput: 1.0 MiB/s"),
        ("begins_ms", 1_795_492_229_624, "begins: 2026-11-24T03:50:29Z"),
        ("eta_s", 90, "eta: 1 min 30 s"),
        ("dry_run", True, "dry run: yes"),
        ("staying", [], "staying: none"),
        ("note", "", "note: none"),
        ("receivers", [{"broker": "b", "bundles": 7}], "receivers: broker b, bundles 7"),
        ("children", ["x", "y"], "children: x; y"),
    ],
)
def test_a_field_of_the_api_shows_its_unit(name: str, value: Any, expected: str) -> None:
    assert f"{render.field_name(name)}: {render.field_value(name, value)}" == expected
