"""What an operator does on pages of the console, with clicks alone."""

from typing import Final

from tests.pipeline.report.browser import Navigated, Tab
from tests.support.time.waiting import eventually

PATIENCE_S: Final = 120.0


async def there_is(page: Tab, script: str) -> None:
    """Wait until a script on the page is true, also over the load of another page."""

    async def holds() -> bool:
        try:
            return bool(await page.run(f"!!document.body && !!({script})"))
        except Navigated:
            return False

    try:
        await eventually(holds, PATIENCE_S, script)
    except AssertionError as error:
        said = f"complaints {page.complaints}, requests {page.requests[-8:]}"
        raise AssertionError(f"{error}; {said}; page: {(await text(page))[:500]}") from error


async def preview(page: Tab, act: str) -> str:
    """Click an act of the page, and read its dry run."""
    # Found and clicked in one step: an update of the page may take the button away in between.
    button = f"document.querySelector('button[value={act}]')"
    await there_is(page, f"(button => button && (button.click(), true))({button})")
    await there_is(page, "location.pathname == '/ui/act' && document.readyState == 'complete'")
    return await text(page)


async def confirm(page: Tab) -> str:
    """Click what the dry run has shown, and read what was done."""
    await page.run("document.querySelector('button.danger').click()")
    await there_is(page, "!document.querySelector('button.danger') && document.querySelector('h1')")
    return str(await page.run("document.querySelector('h1').textContent"))


async def is_done(page: Tab, act: str) -> bool:
    """Do an act, whose dry run may be refused as the cluster changes meanwhile."""
    if not await page.run(f"!!document.querySelector('button[value={act}]')"):
        return False
    await preview(page, act)
    if not await page.run("!!document.querySelector('button.danger')"):
        return False
    return (await confirm(page)).endswith(": done")


async def text(page: Tab) -> str:
    """All text of the page, with single blanks."""
    return " ".join(str(await page.run("document.body.innerText")).split())
