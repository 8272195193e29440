"""What the tests of the console do in a browser holds while pages come and go."""

import asyncio
from pathlib import Path

import pytest

from tests.pipeline.report.browser import required_tab
from tests.support.browser.clicks import there_is


async def test_a_look_that_a_navigation_interrupts_is_repeated_at_the_next_page(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    pages = [tmp_path / "first.html", tmp_path / "second.html"]
    for page in pages:
        page.write_text(f"<h1>{page.stem}</h1>")
    first, second = (page.as_uri() for page in pages)
    async with required_tab(request, tmp_path) as opened:
        # The first look stops in the debugger, and is still there when its page goes away.
        await opened.call("Debugger.enable")
        await opened.show(first, 800, "light")
        stops = "(() => {debugger; return false})()"
        navigate = {"id": 0, "method": "Page.navigate", "params": {"url": second}}
        async with asyncio.TaskGroup() as both:
            both.create_task(there_is(opened, f"location.href == '{second}' || {stops}"))
            both.create_task(opened.socket.send_json(navigate))
        await there_is(opened, "document.querySelector('h1').textContent == 'second'")
