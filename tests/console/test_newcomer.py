"""The test for newcomers (docs/how-to/use-the-console.md): where the four answers are."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.pipeline.report.browser import Tab, required_tab
from tests.support.browser.clicks import there_is
from tests.support.browser.quickstarts import Quickstart, quickstart

IS_SEEN: Final = "(element => element.getBoundingClientRect().top < 900)"
FIRST_BAR: Final = "document.querySelector('table.bars tbody tr')"
MOVE: Final = "document.querySelector('#decisions').parentNode.querySelector('.what')"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quickstart]:
    with quickstart(tmp_path_factory.mktemp("quickstart")) as running:
        yield running


@pytest.fixture
async def page(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Tab]:
    async with required_tab(request, tmp_path) as opened:
        yield opened


async def test_four_questions_are_answered_by_the_first_page_and_one_click(
    page: Tab, cluster: Quickstart
) -> None:
    await page.show(f"{cluster.url}/ui/", 1440, "light")
    level = await page.run("document.querySelector('.level').innerText.toLowerCase()")
    assert level in {"well", "busy", "attention", "danger"}, "is it healthy"
    await there_is(page, f"{FIRST_BAR} && {IS_SEEN}({FIRST_BAR})")
    shares = "[...document.querySelectorAll('table.bars tbody tr')].map(row => parseFloat("
    usage = await page.run(f"{shares}row.cells[2].innerText))")
    assert usage == sorted(usage, reverse=True), "which broker is hottest: the first one"
    # More than two alike ones are behind their number, one click away: no inner text until then.
    is_one = "/transfer done/.test(each.textContent)"
    transfer = f"[...document.querySelectorAll('.what')].find(each => {is_one})"
    await there_is(page, transfer)
    assert await page.run(f"{transfer}.nextElementSibling.textContent.length > 20"), "why it moved"
    assert await page.run(f"{IS_SEEN}({MOVE})")
    coming = "document.querySelector('#next').parentNode"
    assert await page.run(f"{IS_SEEN}({coming}) && /is due|in flight/.test({coming}.innerText)")
    await page.run(f"{coming}.querySelector('a[href=\"/ui/plan\"]').click()")
    await there_is(page, "location.pathname == '/ui/plan' && document.querySelector('h1')")
    heading = str(await page.run("document.querySelector('h1').innerText"))
    assert "next cycle" in heading or "move" in heading or "decision" in heading
