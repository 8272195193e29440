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
  const of = (rect) => ({x: rect.x, y: rect.y, w: rect.width, h: rect.height});
  const figures = [...document.querySelectorAll('figure')].map(figure => {
    const shown = [...figure.querySelectorAll('[role=img]')].filter(
      el => el.getBoundingClientRect().width);
    const svg = shown[0], view = svg.getBoundingClientRect();
    const marks = (kind, shape) => [...svg.querySelectorAll(`[id*="-${kind}"]`)].flatMap(
      (group, place) => [...group.querySelectorAll(shape)].map(el => ({
        place, d: el.getAttribute('d'), said: el.textContent, ...of(el.getBBox()),
        cx: Number(el.getAttribute('x')), cy: Number(el.getAttribute('y')),
        shade: Number(styled(el, 'fillOpacity')), colour: styled(el, 'fill'),
        line: styled(el, 'stroke')})));
    return {
      id: figure.id, kind: figure.dataset.chart, pictures: shown.length, size: of(view),
      frame: of(svg.querySelector(':scope > g > g > g > path').getBBox()),
      said: ['labelledby', 'describedby'].map(
        name => document.getElementById(svg.getAttribute('aria-' + name)).textContent).join(': '),
      tables: figure.querySelectorAll('details table').length,
      texts: [...svg.querySelectorAll('text')].map(el => ({
        text: el.textContent, colour: styled(el, 'fill'), ...of(el.getBoundingClientRect())})),
      lines: marks('line-', ':scope > path'), dots: marks('line-', 'use'),
      area: marks('area', 'path, use'), levels: marks('level-', 'path'),
      boxes: marks('boxes-', 'path'), points: marks('points-', 'use'),
      keys: [...figure.querySelectorAll('.legend path')].map(el => styled(el, 'stroke')),
      labels: [...figure.querySelectorAll('.legend li')].map(el => el.textContent.trim()),
    };
  });
  return {figures, width: document.documentElement.scrollWidth, room: innerWidth,
          back: styled(document.body, 'backgroundColor'), text: styled(document.body, 'color')};
})()"""
SHOWN = ((1280, "light"), (390, "light"), (390, "dark"))


@dataclass(frozen=True)
class Looked:
    """Figures by width and scheme, and the complaints of the browser."""

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
    """The chart in the JSON."""
    numbers = decode(encode(sample().to_row()))
    section, _, place = name.rpartition("-")
    (found,) = (each for each in numbers["sections"] if each["name"] == section)
    return found["charts"][int(place)]


def figure(seen: Any, name: str) -> Any:
    (found,) = (each for each in seen["figures"] if each["id"] == name)
    return found


def x_of(drawn: Any, numbers: Any, x: float) -> float:
    """The value at a place of the picture."""
    frame, axis = drawn["frame"], numbers["x"]
    return float(axis["low"] + (axis["high"] - axis["low"]) * (x - frame["x"]) / frame["w"])


def y_of(drawn: Any, numbers: Any, y: float) -> float:
    frame, axis = drawn["frame"], numbers["y"]
    part = (frame["y"] + frame["h"] - y) / frame["h"]
    return float(axis["low"] + (axis["high"] - axis["low"]) * part)


def near(value: float, of: float) -> Any:
    """As near as three decimals of a unit of the picture."""
    return pytest.approx(value, abs=of * 2e-5)


def places(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", path)]


def test_nothing_is_loaded_and_nothing_goes_wrong(looked: Looked) -> None:
    assert looked.complaints == []
    assert {each.partition(":")[0] for each in looked.requests} == {"file"}
    assert len(looked.requests) == len(SHOWN)


def test_the_page_is_as_wide_as_the_screen(seen: Any) -> None:
    assert seen["width"] <= seen["room"]
    for drawn in seen["figures"]:
        assert drawn["size"]["w"] > 200, drawn["id"]
        assert drawn["size"]["h"] > 10, drawn["id"]


def test_texts_are_within_the_picture_and_large_enough(seen: Any) -> None:
    for drawn in seen["figures"]:
        size = drawn["size"]
        assert drawn["texts"]
        for text in drawn["texts"]:
            assert text["x"] >= size["x"] - 1, text
            assert text["x"] + text["w"] <= size["x"] + size["w"] + 1, text
            assert text["y"] + text["h"] <= size["y"] + size["h"] + 1, text
            assert text["h"] > 11, text
            assert text["colour"] not in {"none", seen["back"]}, text


def test_every_chart_is_there_with_words_and_a_table(seen: Any) -> None:
    assert [(each["id"], each["kind"]) for each in seen["figures"]] == [
        *(("loads-0", "lines"), ("loads-1", "stacks"), ("heat-0", "heat")),
        *(("what-if-0", "bars"), ("front-0", "points")),
    ]
    for drawn in seen["figures"]:
        assert drawn["pictures"] == 1
        assert drawn["tables"] == 1
        assert "The values stand in the table below." in drawn["said"]
        assert drawn["said"].startswith(chart(drawn["id"])["title"][:20])
        assert len(drawn["said"]) > 60


def test_a_shape_says_its_value_where_there_is_room(looked: Looked) -> None:
    for kind, name in (("boxes", "loads-1"), ("boxes", "heat-0"), ("points", "front-0")):
        wide = figure(looked.pages[1280, "light"], name)[kind]
        assert all(each["said"] for each in wide)
        # A telephone has no pointer.
        assert not any(each["said"] for each in figure(looked.pages[390, "light"], name)[kind])
    boxes = figure(looked.pages[1280, "light"], "loads-1")["boxes"]
    assert boxes[1]["said"] == "band, 2026-01-01 02:00: 2.5 % of all load"


def test_lines_are_where_the_numbers_are(seen: Any) -> None:
    drawn, numbers = figure(seen, "loads-0"), chart("loads-0")
    assert len(drawn["lines"]) == len(numbers["series"]) == 9
    middles = [x + numbers["width_ms"] / 2 for x in numbers["xs"]]
    for line, series in zip(drawn["lines"], numbers["series"], strict=True):
        points = places(line["d"])
        known = [(x, y) for x, y in zip(middles, series["values"], strict=True) if y is not None]
        assert len(points) == len(known)
        for (x, y), (at_ms, value) in zip(points, known, strict=True):
            assert x_of(drawn, numbers, x) == near(at_ms, 4 * 3_600_000)
            assert y_of(drawn, numbers, y) == near(value, 80.0)
    # A gap parts a line, and what stands alone is a dot.
    assert drawn["lines"][0]["d"].count("M") == 2
    (dot,) = drawn["dots"]
    assert (dot["cx"], dot["cy"]) == places(drawn["lines"][0]["d"])[0]
    assert len(drawn["levels"]) == 2
    for level, line in zip(numbers["levels"], drawn["levels"], strict=True):
        assert y_of(drawn, numbers, line["y"]) == near(level["value"], 80.0)


def test_the_area_reaches_from_the_lowest_to_the_highest(seen: Any) -> None:
    drawn, numbers = figure(seen, "loads-0"), chart("loads-0")
    low, high = (each["values"] for each in numbers["within"])
    # Where nothing is known, the area has a gap.
    wanted = [{high[0], high[1], low[1], low[0]}, {high[3], low[3]}]
    for piece, values in zip(drawn["area"], wanted, strict=True):
        found = {round(y_of(drawn, numbers, y), 2) for _, y in places(piece["d"])}
        assert sorted(found) == [near(value, 1000.0) for value in sorted(values)]


def test_boxes_stand_upon_each_other_as_high_as_the_numbers(seen: Any) -> None:
    drawn, numbers = figure(seen, "loads-1"), chart("loads-1")
    found = {
        (each["place"], round(x_of(drawn, numbers, each["x"]), -3)): each for each in drawn["boxes"]
    }
    low: dict[int, float] = {}
    count = 0
    for place, series in enumerate(numbers["series"]):
        for at_ms, value in zip(numbers["xs"], series["values"], strict=True):
            if value:
                count += 1
                box = found[place, at_ms]
                assert box["h"] / drawn["frame"]["h"] * 5.0 == near(value, 5.0)
                assert box["w"] / drawn["frame"]["w"] == near(0.25, 1.0)
                foot = y_of(drawn, numbers, box["y"] + box["h"])
                assert foot == near(low.get(at_ms, 0.0), 5.0)
                low[at_ms] = low.get(at_ms, 0.0) + value
    assert count == len(drawn["boxes"]) == 6


def test_shades_are_as_deep_as_the_numbers(seen: Any) -> None:
    drawn, numbers = figure(seen, "heat-0"), chart("heat-0")
    values = [(x, v) for row in numbers["rows"] for x, v in enumerate(row["values"])]
    known = [each for each in values if each[1] is not None]
    assert len(known) == len(drawn["boxes"]) == 47
    cell = drawn["frame"]["w"] / 24
    for box, (x, value) in zip(drawn["boxes"], known, strict=True):
        assert box["x"] == near(drawn["frame"]["x"] + x * cell, 1000.0)
        shade = 0.0 if box["colour"] == "none" else box["shade"]
        assert shade == pytest.approx(value / 2.3e6, abs=1e-4)


def test_bars_are_as_long_as_the_numbers(seen: Any) -> None:
    drawn, numbers = figure(seen, "what-if-0"), chart("what-if-0")
    for box, bar in zip(drawn["boxes"], numbers["bars"], strict=True):
        assert x_of(drawn, numbers, box["x"]) == near(1.0, 0.4)
        assert x_of(drawn, numbers, box["x"] + box["w"]) == near(bar["value"], 0.4)
    for box, level in zip(drawn["boxes"], drawn["levels"], strict=True):
        assert x_of(drawn, numbers, level["x"]) == near(1.15, 0.4)
        assert level["y"] == near(box["y"], 1000.0)
        assert level["h"] == near(box["h"], 1000.0)
    assert [each["text"] for each in drawn["texts"] if each["text"].endswith(": 1.1")] == [
        "as it is: 1.1"
    ]


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
        assert x_of(drawn, numbers, point["cx"]) == near(x, 8.0)
        assert y_of(drawn, numbers, point["cy"]) == near(y, 1.0)


def test_the_legend_has_the_colours_of_the_marks(seen: Any) -> None:
    lines, points = figure(seen, "loads-0"), figure(seen, "front-0")
    assert lines["keys"][: len(lines["lines"])] == [each["line"] for each in lines["lines"]]
    # There are more lines than colours: the ninth has the first colour again.
    assert len(set(lines["keys"][:8])) == 8
    assert lines["labels"][-3:] == ["mean (33.3)", "target (50)", "lowest broker to highest broker"]
    assert set(points["keys"]) == {each["line"] for each in points["points"]}
    for colour in (*lines["keys"], *points["keys"]):
        assert colour not in {"none", seen["back"]}


def test_the_night_has_colours_of_its_own(looked: Looked) -> None:
    day, night = looked.pages[390, "light"], looked.pages[390, "dark"]
    assert day["back"] == night["text"].replace("232, 234, 237", "255, 255, 255")
    assert night["back"] == "rgb(20, 23, 27)"
    assert figure(day, "loads-0")["keys"] != figure(night, "loads-0")["keys"]
