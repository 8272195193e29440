"""Plots of series that were made by hand."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

import numpy as np
import pytest

from broker_ctl.simulation.plots import Chart, PlotCurve, counts, spans, svg_plot, times

SVG = "{http://www.w3.org/2000/svg}"


def chart(*curves: PlotCurve, title: str = "small", bound: float = 1.0) -> Chart:
    return Chart(title, bound, curves)


def curve(ratios: Sequence[float], moves: Sequence[int] = (), label: str = "balance") -> PlotCurve:
    return PlotCurve(label, np.array(ratios), tuple(moves))


# What is shown.


def test_a_peak_of_one_minute_is_seen_at_any_width() -> None:
    ratios = np.array([1.0] * 500 + [3.0] + [1.0] * 499)
    assert [high for _, high in spans(ratios, 10)] == [1.0] * 5 + [3.0] + [1.0] * 4
    assert {low for low, _ in spans(ratios, 10)} == {1.0}


def test_a_short_series_is_stretched() -> None:
    assert [low for low, _ in spans(np.array([1.0, 2.0]), 5)] == [1.0, 1.0, 1.0, 2.0, 2.0]


def test_moves_are_counted_by_column() -> None:
    assert counts((0, 1, 5, 9), 10, 2).tolist() == [2, 2]
    assert counts((), 10, 3).tolist() == [0, 0, 0]


def test_the_scale_leaves_out_the_first_ten_minutes() -> None:
    assert chart(curve([4.0] * 10 + [1.5] * 5)).top == 1.5
    assert chart(curve([1.0] * 20)).top == pytest.approx(1.1)
    assert chart(curve([1.0] * 20), bound=2.0).top == 2.0


@pytest.mark.parametrize(
    ("minutes", "last", "count"),
    [(3, "3 min", 4), (60, "60 min", 5), (1440, "24 h", 9), (2880, "48 h", 9)],
)
def test_the_axis_has_a_few_round_times(minutes: int, last: str, count: int) -> None:
    marks = list(times(minutes))
    assert marks[-1] == (minutes, last)
    assert len(marks) == count


# As a picture.


def texts(root: ET.Element) -> list[str | None]:
    return [each.text for each in root.iter(f"{SVG}text")]


def places(root: ET.Element, name: str) -> list[list[tuple[float, float]]]:
    """Of each path of an artist."""
    (group,) = (each for each in root.iter(f"{SVG}g") if each.attrib.get("id") == name)
    return [
        [(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", path.attrib["d"])]
        for path in group.iter(f"{SVG}path")
    ]


def test_a_picture_has_the_points_of_each_policy() -> None:
    drawn = svg_plot([chart(curve([1.0, 1.2, 1.1], moves=[1]), curve([1.2] * 3, label="avg"))])
    root = ET.fromstring(drawn)
    # A third of 720 for each minute; 260 from the mean to the top.
    assert places(root, "replays-0-curve-0") == [[(176.0, 300.0), (416.0, 40.0), (656.0, 170.0)]]
    assert places(root, "replays-0-curve-1") == [[(176.0, 40.0), (416.0, 40.0), (656.0, 40.0)]]
    (tick,) = places(root, "replays-0-moves-0")
    assert {x for x, _ in tick} == {416.0}
    assert {"small", "bound 1.000", "balance, 1 move", "avg, 0 moves"} <= set(texts(root))


def test_a_dip_and_a_peak_in_one_column_are_both_drawn() -> None:
    ratios = [1.5] * 1440
    ratios[101] = 2.0
    (line,) = places(ET.fromstring(svg_plot([chart(curve(ratios))])), "replays-0-curve-0")
    assert line[49:53] == [(105.5, 170.0), (106.5, 40.0), (106.5, 170.0), (107.5, 170.0)]


def test_scenarios_stand_one_below_the_other() -> None:
    drawn = svg_plot([chart(curve([1.0, 1.1]), title=name) for name in ("one", "two")])
    root = ET.fromstring(drawn)
    tops = {text.text: float(text.attrib["y"]) for text in root.iter(f"{SVG}text")}
    # Title, curves, one lane of moves and the hours.
    assert tops["two"] - tops["one"] == pytest.approx(40 + 260 + 8 + 14 + 40)
    assert root.attrib["viewBox"] == "0 0 960 724"


def test_the_same_replays_are_the_same_picture_with_words_and_nothing_from_elsewhere() -> None:
    drawn = svg_plot([chart(curve([1.0, 1.2, 1.1], moves=[1]))])
    assert drawn == svg_plot([chart(curve([1.0, 1.2, 1.1], moves=[1]))])
    root = ET.fromstring(drawn)
    for name in ("labelledby", "describedby"):
        (words,) = (e for e in root if e.attrib.get("id") == root.attrib[f"aria-{name}"])
        assert words.text in {"Imbalance of replays", "small: balance, 1 move"}
    assert re.findall(r"[a-z]+://[^\"<]*", drawn) == ["http://www.w3.org/2000/svg"]
    links = [value for each in root.iter() for key, value in each.attrib.items() if "href" in key]
    assert all(link.startswith("#") for link in links)


@pytest.mark.parametrize(
    "name",
    ["</svg><script>", "a & b", "bell\x07 and\x1b[31m red", "\ud800", r"$\frac{$", "命名空间"],
)
def test_a_title_is_only_text(name: str) -> None:
    root = ET.fromstring(svg_plot([chart(curve([1.0, 1.1]), title=name)]).encode())
    title = "".join(each if each.isprintable() else "?" for each in name)
    assert texts(root).count(title) == 1
    assert not list(root.iter(f"{SVG}script"))
