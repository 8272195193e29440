"""The page in a real Chromium: what is drawn is what the JSON says, at every width, day and night.

The tests need a Chromium: Debian's package of that name. Without one they are skipped, unless
``--require-chromium`` says that they must run.
"""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from broker_ctl.codec import decode, encode
from broker_ctl.pipeline.report.page import page
from tests.pipeline.report.browser import chromium, tab
from tests.pipeline.report.samples import sample

# What the browser has made of the page: geometry of all marks, colours, and how wide it is.
LOOK = """(() => {
  const styled = (el, name) => getComputedStyle(el)[name];
  const figures = [...document.querySelectorAll('figure')].map(figure => {
    const svg = figure.querySelector('.area-of') || figure.querySelector('.strip svg');
    const ends = el => el ? Object.fromEntries(['x', 'y'].map(
      name => [name, (el.dataset[name] || '').split(' ').map(Number)])) : {};
    return {
      id: figure.id, kind: figure.dataset.chart,
      ends: ends(figure.querySelector('[data-x]')),
      size: [svg.getBoundingClientRect().width, svg.getBoundingClientRect().height],
      said: figure.querySelector('[role=img]').getAttribute('aria-label'),
      tables: figure.querySelectorAll('details table').length,
      lines: [...figure.querySelectorAll('path.line')].map(el => ({
        label: el.dataset.series, d: el.getAttribute('d'), colour: styled(el, 'stroke')})),
      area: [...figure.querySelectorAll('.area-of .area')].map(el => el.getAttribute('d')),
      levels: [...figure.querySelectorAll('path.level[data-level]')].map(el => [
        Number(el.dataset.level), el.getBBox().y]),
      boxes: [...figure.querySelectorAll('rect')].map(el => ({
        place: Number(el.dataset.place), value: Number(el.dataset.v),
        x: el.getBBox().x, y: el.getBBox().y, w: el.getBBox().width, h: el.getBBox().height,
        shade: Number(styled(el, 'fillOpacity')), colour: styled(el, 'fill')})),
      points: [...figure.querySelectorAll('path.point')].map(el => ({
        place: Number(el.dataset.place), x: el.getBBox().x, y: el.getBBox().y,
        colour: styled(el, 'stroke')})),
      keys: [...figure.querySelectorAll('.legend path')].map(el => styled(el, 'stroke')),
      told: [...figure.querySelectorAll('.legend li')].map(el => el.textContent.trim()),
    };
  });
  return {figures, width: document.documentElement.scrollWidth, room: innerWidth,
          back: styled(document.body, 'backgroundColor'), text: styled(document.body, 'color')};
})()"""
SHOWN = ((1280, "light"), (390, "light"), (390, "dark"))


@dataclass(frozen=True)
class Looked:
    """By width and scheme; and what the browser had to say."""

    pages: Mapping[tuple[int, str], Any]
    complaints: list[str]
    requests: list[str]


@pytest.fixture(scope="module")
def looked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Looked:
    """One browser for all tests."""
    program = chromium()
    if program is None:
        reason = "no Chromium here: apt-get install --no-install-recommends chromium"
        if request.config.getoption("require_chromium"):
            pytest.fail(reason)
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp("browser")
    file = directory / "report.html"
    file.write_text(page(sample()), encoding="utf-8")

    async def look() -> Looked:
        pages = {}
        async with tab(program, directory / "profile") as opened:
            for width, scheme in SHOWN:
                await opened.show(file.as_uri(), width, scheme)
                pages[width, scheme] = await opened.run(LOOK)
            return Looked(pages, opened.complaints, opened.requests)

    return asyncio.run(look())


@pytest.fixture(params=SHOWN, ids=lambda each: f"{each[0]}-{each[1]}")
def seen(request: pytest.FixtureRequest, looked: Looked) -> Any:
    return looked.pages[request.param]


def chart(name: str) -> Any:
    """As the JSON has it."""
    numbers = decode(encode(sample().to_row()))
    section, _, place = name.rpartition("-")
    (found,) = (each for each in numbers["sections"] if each["name"] == section)
    return found["charts"][int(place)]


def figure(seen: Any, name: str) -> Any:
    (found,) = (each for each in seen["figures"] if each["id"] == name)
    return found


def x_of(drawn: Any, thousandths: float) -> float:
    low, high = drawn["ends"]["x"]
    return float(low + (high - low) * thousandths / 1000)


def y_of(drawn: Any, thousandths: float) -> float:
    low, high = drawn["ends"]["y"]
    return float(low + (high - low) * (1 - thousandths / 1000))


def near(value: float, of: float) -> Any:
    """As near as two decimals of a thousandth of the axis."""
    return pytest.approx(value, abs=of * 2e-5)


def test_nothing_is_loaded_and_nothing_goes_wrong(looked: Looked) -> None:
    assert looked.complaints == []
    assert {each.partition(":")[0] for each in looked.requests} == {"file"}
    assert len(looked.requests) == len(SHOWN)


def test_the_page_is_as_wide_as_the_screen(seen: Any) -> None:
    assert seen["width"] <= seen["room"]
    for drawn in seen["figures"]:
        assert drawn["size"][0] > 200, drawn["id"]
        assert drawn["size"][1] > 10, drawn["id"]


def test_every_chart_is_there_with_words_and_a_table(seen: Any) -> None:
    assert [(each["id"], each["kind"]) for each in seen["figures"]] == [
        *(("loads-0", "lines"), ("loads-1", "stacks"), ("heat-0", "heat")),
        *(("what-if-0", "bars"), ("front-0", "points")),
    ]
    for drawn in seen["figures"]:
        assert drawn["tables"] == 1
        assert "The values stand in the table below." in drawn["said"]
        assert len(drawn["said"]) > 60


def test_lines_are_where_the_numbers_are(seen: Any) -> None:
    drawn, numbers = figure(seen, "loads-0"), chart("loads-0")
    assert len(drawn["lines"]) == len(numbers["series"]) == 9
    middles = [x + numbers["width_ms"] / 2 for x in numbers["xs"]]
    for line, series in zip(drawn["lines"], numbers["series"], strict=True):
        points = [tuple(map(float, each)) for each in re.findall(r"([\d.]+),([\d.]+)", line["d"])]
        known = [(x, y) for x, y in zip(middles, series["values"], strict=True) if y is not None]
        assert len(points) == len(known)
        for (x, y), (at_ms, value) in zip(points, known, strict=True):
            assert x_of(drawn, x) == near(at_ms, 4 * 3_600_000)
            assert y_of(drawn, y) == near(value, 80.0)
    # A gap parts a line.
    assert drawn["lines"][0]["d"].count("M") == 2
    assert [level for level, _ in drawn["levels"]] == [33.3, 50.0]
    for value, y in drawn["levels"]:
        assert y_of(drawn, y) == near(value, 80.0)


def test_the_area_reaches_from_the_lowest_to_the_highest(seen: Any) -> None:
    drawn, numbers = figure(seen, "loads-0"), chart("loads-0")
    low, high = (each["values"] for each in numbers["within"])
    (path,) = drawn["area"]
    pieces = [re.findall(r"[\d.]+,([\d.]+)", piece) for piece in path.split("Z")[:-1]]
    # Where nothing is known, the area has a gap.
    wanted = [[high[0], high[1], low[1], low[0]], [high[3], low[3]]]
    assert [len(each) for each in pieces] == [4, 2]
    for piece, values in zip(pieces, wanted, strict=True):
        assert [y_of(drawn, float(y)) for y in piece] == [near(value, 80.0) for value in values]


def test_boxes_stand_upon_each_other_as_high_as_the_numbers(seen: Any) -> None:
    drawn, numbers = figure(seen, "loads-1"), chart("loads-1")
    found = {(each["place"], round(x_of(drawn, each["x"]))): each for each in drawn["boxes"]}
    low: dict[int, float] = {}
    count = 0
    for place, series in enumerate(numbers["series"]):
        for at_ms, value in zip(numbers["xs"], series["values"], strict=True):
            if value:
                count += 1
                box = found[place, at_ms]
                assert box["h"] / 1000 * 5.0 == near(value, 5.0)
                foot = y_of(drawn, box["y"] + box["h"])
                assert foot == near(low.get(at_ms, 0.0), 5.0)
                low[at_ms] = low.get(at_ms, 0.0) + value
    assert count == len(drawn["boxes"]) == 6


def test_shades_are_as_deep_as_the_numbers(seen: Any) -> None:
    drawn, numbers = figure(seen, "heat-0"), chart("heat-0")
    values = [(x, v) for row in numbers["rows"] for x, v in enumerate(row["values"])]
    known = [each for each in values if each[1] is not None]
    assert len(known) == len(drawn["boxes"]) == 47
    for box, (x, value) in zip(drawn["boxes"], known, strict=True):
        assert (box["x"], box["value"]) == (x, value)
        assert box["shade"] == pytest.approx(value / 2.3e6, abs=1e-4)


def test_bars_are_as_long_as_the_numbers(seen: Any) -> None:
    drawn, numbers = figure(seen, "what-if-0"), chart("what-if-0")
    assert [each["value"] for each in drawn["boxes"]] == [1.1, 1.37]
    for box, bar in zip(drawn["boxes"], numbers["bars"], strict=True):
        assert x_of(drawn, box["w"]) == near(bar["value"], 0.4)


def test_points_are_where_the_numbers_are(seen: Any) -> None:
    drawn, numbers = figure(seen, "front-0"), chart("front-0")
    wanted = [
        (place, point["x"], point["y"])
        for place, group in enumerate(numbers["groups"])
        for point in group["points"]
    ]
    assert len(drawn["points"]) == len(wanted) == 3
    for point, (place, x, y) in zip(drawn["points"], wanted, strict=True):
        assert point["place"] == place
        assert x_of(drawn, point["x"]) == near(x, 8.0)
        assert y_of(drawn, point["y"]) == near(y, 1.0)


def test_the_legend_has_the_colours_of_the_marks(seen: Any) -> None:
    lines, points = figure(seen, "loads-0"), figure(seen, "front-0")
    assert lines["keys"][: len(lines["lines"])] == [each["colour"] for each in lines["lines"]]
    # More than there are colours: the ninth has the first one again.
    assert len(set(lines["keys"][:8])) == 8
    assert lines["told"][-3:] == ["mean (33.3)", "target (50)", "lowest broker to highest broker"]
    assert set(points["keys"]) == {each["colour"] for each in points["points"]}
    for colour in (*lines["keys"], *points["keys"]):
        assert colour not in {"none", seen["back"]}


def test_the_night_has_colours_of_its_own(looked: Looked) -> None:
    day, night = looked.pages[390, "light"], looked.pages[390, "dark"]
    assert day["back"] == night["text"].replace("232, 234, 237", "255, 255, 255")
    assert night["back"] == "rgb(20, 23, 27)"
    assert figure(day, "loads-0")["keys"] != figure(night, "loads-0")["keys"]
