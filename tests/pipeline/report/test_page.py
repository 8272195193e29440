"""The page as text: what stands in it, how it is written, and its colours."""

import re
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from typing import Any

import matplotlib as mpl
import pytest

from broker_ctl.codec import decode, encode
from broker_ctl.pipeline.report.charts import pictures
from broker_ctl.pipeline.report.page import chart_table, page
from broker_ctl.pipeline.report.values import (
    NOTHING,
    ChartAxis,
    ChartBars,
    ChartLevel,
    ChartSeries,
    Lines,
    Points,
    Report,
    Section,
    axis,
    figure,
    locator,
    width_of,
)
from tests.pipeline.report.samples import HOSTILE, sample
from tests.support.pipeline.segment_files import DAY_ONE_MS

SVG = "{http://www.w3.org/2000/svg}"
SEEN = HOSTILE.replace("\u202e", "?").replace("\x07", "?")


class Read(HTMLParser):
    """Elements, all text, and the rows of the tables; a cell is its text, or the number in it."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[Any]]] = []
        self.facts: list[Any] = []
        self.text = ""
        self._into: list[Any] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.elements.append((tag, named))
        match tag:
            case "table":
                self.tables.append([])
            case "tr":
                self.tables[-1].append([])
            case "td":
                self._take(self.tables[-1][-1], named)
            case "dd":
                self._take(self.facts, named)

    def _take(self, into: list[Any], named: dict[str, str | None]) -> None:
        value = named.get("data-v")
        into.append("" if value is None else float({"True": "1", "False": "0"}.get(value, value)))
        self._into = into if value is None else None

    def handle_endtag(self, tag: str) -> None:
        if tag in {"td", "dd"}:
            self._into = None

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._into is not None:
            self._into[-1] += data


def read(report: Report) -> Read:
    found = Read()
    found.feed(page(report))
    found.close()
    return found


def cells(values: Any) -> list[Any]:
    """What the cells show of values of the JSON."""
    return [
        NOTHING
        if each is None
        else each.replace("\u202e", "?").replace("\x07", "?")
        if isinstance(each, str)
        else float(each)
        for each in values
    ]


def test_names_from_outside_are_text_and_never_markup() -> None:
    found = read(sample())
    tags = {tag for tag, _ in found.elements}
    assert not tags & {"script", "img", "iframe", "object", "link", "base", "form"}
    names = {name for _, attributes in found.elements for name in attributes}
    assert not [name for name in names if name.startswith("on") or name in {"src", "srcset"}]
    assert {a["href"] for tag, a in found.elements if tag == "a"} == {
        *("#loads", "#heat", "#what-if", "#front", "#lacking")
    }
    # The name is there unchanged, except for invisible characters.
    assert f"Cluster {SEEN}" in found.text
    assert "\u202e" not in found.text
    assert "://" not in page(Report("c", None, ()))


def test_the_page_and_the_json_have_the_same_numbers() -> None:
    found = read(sample())
    numbers = decode(encode(sample().to_row()))
    facts = [fact["value"] for section in numbers["sections"] for fact in section["facts"]]
    assert found.facts == cells(facts)
    (loads,) = (each for each in numbers["sections"] if each["name"] == "loads")
    rows = [row for row in loads["tables"][0]["rows"] if row]
    assert [row for row in found.tables[2] if row] == [cells(row) for row in rows]
    assert loads["tables"][0]["left_out"] == 7
    assert "7 more rows are left out." in found.text
    assert "From 1,234 rows of broker_loads, 2026-01-01 00:00 to 2026-01-01 04:00." in found.text


def test_every_chart_has_its_values_as_a_table() -> None:
    found = read(sample())
    charts = [chart for section in sample().sections for chart in section.charts]
    # Behind the first two stands the table of their section.
    drawn = [*found.tables[:2], *found.tables[3:]]
    assert len(drawn) == len(charts) == 5
    for table, chart in zip(drawn, charts, strict=True):
        rows = [row for row in table if row]
        assert rows == [cells(row) for row in chart_table(chart).rows]
        assert len(rows) >= 2


def test_a_missing_section_names_the_command_that_makes_it() -> None:
    found = read(sample())
    assert "No back-test was given." in found.text
    assert f"broker-ctl report --backtest {SEEN}" in found.text


def test_a_section_without_anything_still_has_words() -> None:
    found = read(Report("c", None, (Section("s", "Nothing", ("No bundle moved.",)),)))
    assert "No bundle moved." in found.text


def luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_marks_and_words_stand_out_from_the_page_by_day_and_by_night() -> None:
    style = page(Report("c", None, ())).partition("<style>")[2].partition("</style>")[0]
    day, night = (
        dict(re.findall(r"--(\w+):(#[0-9a-f]{6})", part))
        for part in style.split("@media screen and (prefers-color-scheme:dark)", 1)
    )
    assert set(day) == set(night) >= {"bg", "panel", "text", "soft", "c0", "c7", "heat"}
    for colours in (day, night):
        for name in ("text", "soft", "warn"):
            for back in ("bg", "panel"):
                assert contrast(colours[name], colours[back]) >= 4.5, name
        for name in (*(f"c{n}" for n in range(8)), "level", "heat"):
            assert contrast(colours[name], colours["bg"]) >= 3.0, name


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "", NOTHING),
        (True, "", "yes"),
        (1234, "", "1234"),
        (12_345_678, "", "12.35 M"),
        (1.23456, "", "1.235"),
        (99_999.0, "", "100 k"),
        (0.00001, "", "0.000"),
        (-1e-14, "", "0"),
        (float("inf"), "", NOTHING),
        (1_767_225_600_000, "UTC", "2026-01-01 00:00"),
        (1_767_225_601_000, "UTC", "2026-01-01 00:00:01"),
    ],
)
def test_a_figure_has_four_digits(value: Any, unit: str, text: str) -> None:
    assert figure(value, unit) == text


def test_an_axis_has_round_ends_around_its_values() -> None:
    assert axis("a", "b", (0.3, 7.2, None), 0.0) == ChartAxis("a", "b", 0.0, 8.0)
    assert axis("a", "b", (1.07, 1.31)) == ChartAxis("a", "b", 1.0, 1.4)
    assert axis("a", "b", (), 0.0) == ChartAxis("a", "b", 0.0, 1.0)
    assert axis("a", "b", (5.0, 5.0)).high > 5.0
    for values in ((1.0852, 1.08742), (1.07, 1.31), (0.2, 77.0)):
        ends = axis("a", "b", values)
        assert ends.low <= min(values)
        assert ends.high >= max(values)
        said = list(locator().tick_values(ends.low, ends.high))
        assert said[0] == pytest.approx(ends.low)
        assert said[-1] == pytest.approx(ends.high)
        assert len(said) >= 3


@pytest.mark.parametrize(
    ("minutes", "wide", "narrow", "corner"),
    [
        (24 * 60, ["01 Jan", "03:00", "06:00"], ["01 Jan", "06:00", "12:00"], "02 Jan 2026"),
        (60, ["00:00", "00:10", "00:20"], ["00:00", "00:15", "00:30"], "01 Jan 2026"),
        (7 * 24 * 60, ["01 Jan", "02 Jan", "03 Jan"], ["01 Jan", "03 Jan", "05 Jan"], "2026"),
    ],
)
def test_the_time_axis_says_which_day_begins(
    minutes: int, wide: list[str], narrow: list[str], corner: str
) -> None:
    time = ChartAxis("time", "UTC", float(DAY_ONE_MS), float(DAY_ONE_MS + minutes * 60_000))
    chart = Points("p", time, ChartAxis("y", "%", 0.0, 8.0), ())
    drawn = {size: ET.fromstring(picture) for size, picture in pictures(chart, "x")}
    for size, marks in (("wide", wide), ("narrow", narrow)):
        texts = [each.text for each in drawn[size].iter(f"{SVG}text")]
        assert texts[:3] == marks
        assert texts[texts.index("time (UTC)") + 1] == corner


def test_the_same_numbers_are_the_same_page(monkeypatch: pytest.MonkeyPatch) -> None:
    before = page(sample())
    # Nothing depends on the one that renders it: neither a style of theirs nor the time.
    monkeypatch.setitem(mpl.rcParams, "xtick.labelsize", 31.0)
    monkeypatch.setitem(mpl.rcParams, "timezone", "Asia/Kolkata")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    assert page(sample()) == before
    assert mpl.rcParams["xtick.labelsize"] == 31.0
    assert "matplotlib.pyplot" not in sys.modules


@pytest.mark.parametrize("name", [r"$\frac{$", "$x$", "租户/命名空间", "a\nb", "\ud800", "#000001"])
def test_any_name_is_drawn_as_it_is(name: str) -> None:
    chart = ChartBars("p", ChartAxis("y", "%", 0.0, 8.0), (ChartLevel(name, 1.0),))
    for _, picture in pictures(chart, "x"):
        texts = [each.text for each in ET.fromstring(picture).iter(f"{SVG}text")]
        assert f"{name}: 1".replace("\n", "?").replace("\ud800", "?") in texts


def test_a_name_without_end_loses_its_middle() -> None:
    name = f"tenant/{'x' * 500}/0x00000000_0xffffffff"
    chart = ChartBars("p", ChartAxis("y", "%", 0.0, 8.0), (ChartLevel(name, 1.0),))
    for _, picture in pictures(chart, "x"):
        texts = [each.text or "" for each in ET.fromstring(picture).iter(f"{SVG}text")]
        lines = [each for each in texts if "x" in each]
        assert 2 <= len(lines) <= 3
        assert lines[0].startswith("tenant/x")
        assert lines[-1].endswith("/0x00000000_0xffffffff: 1")
        assert sum("…" in each for each in lines) == 1


def test_no_point_of_a_line_is_left_out() -> None:
    xs = tuple(DAY_ONE_MS + minute * 60_000 for minute in range(500))
    time = ChartAxis("time", "UTC", float(xs[0]), float(xs[-1]))
    series = ChartSeries("straight", tuple(minute / 100 for minute in range(500)))
    chart = Lines("p", time, ChartAxis("y", "%", 0.0, 8.0), xs, 60_000, (series,))
    for size, picture in pictures(chart, "x"):
        _, by_id = ET.XMLID(picture)
        path = by_id[f"x-{size}-line-0"].find(f"{SVG}path")
        assert path is not None
        assert path.attrib["d"].count("L") == 499


def test_no_two_elements_of_the_page_have_the_same_id() -> None:
    ids = [attributes["id"] for _, attributes in read(sample()).elements if "id" in attributes]
    assert len(ids) == len(set(ids)) > 20


def test_places_along_the_time_are_as_fine_as_there_may_be() -> None:
    assert width_of(3_600_000, 240) == 15_000
    assert width_of(24 * 3_600_000, 240) == 10 * 60_000
    assert width_of(0, 240) == 1_000
