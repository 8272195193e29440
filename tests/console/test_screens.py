"""A real Chromium at a running quickstart."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.pipeline.report.browser import Tab, chromium, tab
from tests.support.time.waiting import eventually

START_S: Final = 90.0
PAGES: Final = (
    "/ui/",
    "/ui/bundles",
    "/ui/plan",
    "/ui/history",
    "/ui/partitions?topic=quickstart",
    "/ui/settings",
    "/ui/glossary",
)
SIZES: Final = ((1440, "light"), (360, "light"), (1440, "dark"), (360, "dark"))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address that a quickstart prints."""
    directory = tmp_path_factory.mktemp("quickstart")
    arguments = ("quickstart", "--headless", "--partitions", "3", "--duration", "900")
    program = (sys.executable, "-m", "broker_ctl", *arguments, "--dir", str(directory))
    with (
        (directory / "stdout").open("w") as out,
        subprocess.Popen(program, stdout=out, stderr=subprocess.PIPE, text=True) as process,
    ):
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if line.startswith("console: "):
                    yield line.removeprefix("console: ").strip()
                    break
            else:
                pytest.fail("the quickstart printed no address")
        finally:
            os.kill(process.pid, signal.SIGTERM)
            process.stderr.read()


@pytest.fixture
async def page(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Tab]:
    program = chromium()
    if program is None:
        reason = "no Chromium here: apt-get install --no-install-recommends chromium"
        if request.config.getoption("require_chromium"):
            pytest.fail(reason)
        pytest.skip(reason)
    async with tab(program, tmp_path / "profile") as opened:
        yield opened


async def test_no_page_complains_overflows_or_asks_anything_of_others(
    page: Tab, console: str
) -> None:
    base = console.removesuffix("/ui/")
    for path in PAGES:
        for width, scheme in SIZES:
            await page.show(base + path, width, scheme)
            wider = await page.run("document.documentElement.scrollWidth - window.innerWidth")
            assert wider <= 0, (path, width)
            assert await page.run("document.querySelectorAll('h1').length") == 1
    assert page.complaints == []
    foreign = [url for url in page.requests if not url.startswith((base, "data:"))]
    assert foreign == []


async def test_everything_is_readable_without_scripts(page: Tab, console: str) -> None:
    await page.call("Emulation.setScriptExecutionDisabled", value=True)
    await page.show(console, 1440, "light")
    shown: list[str] = []

    async def has_bars() -> bool:
        await page.show(console, 1440, "light")
        document = (await page.call("DOM.getDocument", depth=-1))["result"]["root"]["nodeId"]
        found = await page.call("DOM.querySelectorAll", nodeId=document, selector="table.bars tr")
        shown[:] = map(str, found["result"]["nodeIds"])
        return len(shown) == 4

    await eventually(has_bars, START_S)


async def test_the_first_page_follows_the_cluster_without_a_reload(page: Tab, console: str) -> None:
    await page.show(console, 1440, "light")
    await page.run("window.isStillThisPage = true")
    age = "document.querySelector('.source').textContent"
    before = await page.run(age)

    async def has_changed() -> bool:
        return bool(await page.run(age) != before)

    await eventually(has_changed, START_S)
    assert await page.run("document.documentElement.dataset.stream") == "on"
    assert await page.run("window.isStillThisPage")
    assert page.complaints == []


async def test_a_bundle_and_a_broker_are_reached_by_links(page: Tab, console: str) -> None:
    base = console.removesuffix("/ui/")
    await page.show(f"{base}/ui/bundles", 1440, "light")

    async def has_bundle() -> bool:
        await page.show(f"{base}/ui/bundles", 1440, "light")
        return bool(await page.run("!!document.querySelector('tbody th a')"))

    await eventually(has_bundle, START_S)
    for link in ("tbody th a", "dd.name a"):
        await page.show(
            base + str(await page.run(f"document.querySelector('{link}').getAttribute('href')")),
            360,
            "light",
        )
        assert "Last decisions on it" in str(await page.run("document.body.textContent"))
    assert page.complaints == []


async def test_a_bundle_is_moved_with_clicks_alone(page: Tab, console: str) -> None:
    async def there_is(script: str) -> None:
        await eventually(lambda: page.run(script), START_S, script)

    async def is_moved() -> bool:
        """Again from the start, where a split has taken the bundle away in between."""
        await page.show(f"{console}bundles", 1440, "light")
        if not await page.run("!!document.querySelector('tbody th a')"):
            return False
        await page.run("document.querySelector('tbody th a').click()")
        await there_is("location.search.includes('bundle=') && document.readyState == 'complete'")
        if not await page.run("!!document.querySelector('button[value=move]')"):
            return False
        await page.run("document.querySelector('button[value=move]').click()")
        await there_is("location.pathname == '/ui/act' && document.readyState == 'complete'")
        if not await page.run("!!document.querySelector('button.danger')"):
            return False
        await page.run("document.querySelector('button.danger').click()")
        await there_is("!document.querySelector('button.danger') && !!document.querySelector('h1')")
        return bool(await page.run("document.querySelector('h1').textContent.includes(': done')"))

    await eventually(is_moved, START_S)
