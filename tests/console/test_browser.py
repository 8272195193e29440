"""Every page in a real Chromium at a running quickstart: looked at, measured, and operated."""

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import pytest

from tests.pipeline.report.browser import Tab, required_tab
from tests.support.browser.accessibility import violations
from tests.support.browser.clicks import PATIENCE_S, confirm, is_done, preview, text, there_is
from tests.support.browser.quickstarts import Quickstart, quickstart
from tests.support.time.waiting import eventually

PAGES: Final = (
    "",
    "bundles",
    "plan",
    # Of several hundred decisions axe needs minutes.
    "history?kind=transfer",
    "drains",
    "partitions?topic=quickstart",
    "policies",
    "settings",
    "glossary",
)
# On a wall, on a dark screen, in a hand; axe sees nothing in the first that the others lack.
WALL: Final = (2560, "light")
SIZES: Final = (WALL, (1440, "dark"), (360, "light"))
TOPIC: Final = "orders"
HOSTILE: Final = '<img src=x onerror="window.isHacked=1"><script>window.isHacked=1</script>'

# Where the keyboard is, and how one sees it; behind the last element it leaves the page.
AT: Final = """
(element => element == document.body ? [null, null] :
  [element.textContent.trim(), getComputedStyle(element).outlineStyle])(document.activeElement)
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quickstart]:
    with quickstart(tmp_path_factory.mktemp("quickstart"), "--partitions", "3") as running:
        yield running


@pytest.fixture
async def page(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Tab]:
    async with required_tab(request, tmp_path) as opened:
        yield opened


async def ask(method: str, url: str, body: Any = None) -> Any:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, json=body) as reply,
    ):
        assert reply.ok, await reply.text()
        return await reply.json(content_type=None)


def keep(folder: str, name: str, picture: bytes) -> None:
    """Leave a picture where a reviewer looks."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / name).write_bytes(picture)


async def heaviest(cluster: Quickstart, least_topics: int = 1) -> str:
    """The bundle with the most traffic, of those with topics enough."""

    async def found() -> str | None:
        view = await ask("GET", f"{cluster.url}/control/v1/cluster")
        rows = (row for row in view["bundles"] if row["topics"] >= least_topics)
        return next((str(row["bundle"]) for row in rows), None)

    return await eventually(found, PATIENCE_S)


async def test_a_plan_is_approved_and_carried_out_before_the_eyes(
    page: Tab, cluster: Quickstart
) -> None:
    """First of all: then there is something to do."""
    await page.show(f"{cluster.url}/ui/", 1440, "light")
    assert "nothing has been done" in await preview(page, "pause")
    await page.run("document.querySelector('#reason').value = 'a look at the plan'")
    assert (await confirm(page)).endswith(": done")

    async def is_approved() -> bool:
        await page.show(f"{cluster.url}/ui/plan", 1440, "light")
        return await is_done(page, "approve")

    await eventually(is_approved, PATIENCE_S)
    await page.show(f"{cluster.url}/ui/plan", 1440, "light")
    await page.run("window.isStillThisPage = true")
    executed = "document.querySelector('#executed').closest('section')"
    await there_is(
        page, f"{executed}.innerText.includes('done') && {executed}.querySelector('.done')"
    )
    assert await page.run("window.isStillThisPage")

    async def is_resumed() -> bool:
        # A leader that does not answer in time leaves a page without this act.
        await page.show(f"{cluster.url}/ui/", 1440, "light")
        return await is_done(page, "resume")

    await eventually(is_resumed, PATIENCE_S)
    assert page.complaints == []


async def test_every_page_is_whole_at_every_size_and_for_everybody(
    page: Tab, cluster: Quickstart, request: pytest.FixtureRequest
) -> None:
    """No complaint of the browser or its policy, nothing too wide, no request to others; axe."""
    folder = request.config.getoption("screenshots")
    bundle = await heaviest(cluster)
    broker = cluster.url.removeprefix("http://")
    found: list[str] = []
    for name in (*PAGES, f"bundles?bundle={quote(bundle)}", f"brokers/{quote(broker)}"):
        for width, scheme in SIZES:
            await page.show(f"{cluster.url}/ui/{name}", width, scheme)
            # A phone shows all of a page that is too wide, and everything small.
            assert await page.run("document.documentElement.scrollWidth") <= width, name
            assert await page.run("document.querySelectorAll('h1').length") == 1
            if (width, scheme) != WALL:
                found += [f"/ui/{name} {width} {scheme}: {each}" for each in await violations(page)]
            if folder:
                kind = name.partition("?")[0].partition("/")[0] or "now"
                detail = "-detail" if "bundle=" in name else ""
                keep(folder, f"{kind}{detail}-{width}-{scheme}.png", await page.screenshot())
    assert found == []
    assert page.complaints == []
    own = (cluster.url, "data:")
    assert [url for url in page.requests if not url.startswith(own)] == []


async def test_every_act_and_link_is_reached_by_the_keyboard(
    page: Tab, cluster: Quickstart
) -> None:
    await page.show(f"{cluster.url}/ui/", 1440, "light")
    seen: list[str] = []
    for _ in range(200):
        await page.press("Tab")
        name, ring = await page.run(AT)
        if name is None:
            break
        assert ring != "none", name
        seen.append(name)
    assert seen[0] == "Skip to content"
    assert {"Now", "Bundles", "History", "Glossary"} <= set(seen)
    assert any(name.endswith("the balancer…") for name in seen)


async def test_everything_is_readable_without_scripts(page: Tab, cluster: Quickstart) -> None:
    await page.call("Emulation.setScriptExecutionDisabled", value=True)

    async def has_bars() -> bool:
        await page.show(f"{cluster.url}/ui/", 1440, "light")
        document = (await page.call("DOM.getDocument", depth=-1))["result"]["root"]["nodeId"]
        found = await page.call("DOM.querySelectorAll", nodeId=document, selector="table.bars tr")
        return len(found["result"]["nodeIds"]) == 4

    await eventually(has_bars, PATIENCE_S)


async def test_pages_follow_the_cluster_without_a_reload(page: Tab, cluster: Quickstart) -> None:
    for name in ("", "bundles", "history", "partitions"):
        await page.show(f"{cluster.url}/ui/{name}", 1440, "light")
        await page.run("window.isStillThisPage = true")
        before = await page.run("document.querySelector('#updated').textContent")
        await there_is(page, "document.querySelector('#stream').textContent == 'live'")
        if name != "partitions":
            changed = f"document.querySelector('#updated').textContent != {before!r}"
            await there_is(page, changed)
        assert await page.run("window.isStillThisPage")
    assert page.complaints == []


async def test_what_is_open_or_typed_outlives_the_updates(page: Tab, cluster: Quickstart) -> None:
    await page.show(f"{cluster.url}/ui/history", 1440, "light")
    await there_is(page, "document.querySelector('#updated details')")
    # All of them: new decisions take the place of old ones.
    opened = "document.querySelectorAll('#updated details').forEach(each => {each.open = true})"
    await page.run(opened)
    await page.run("document.querySelector('#bundle').value = 'public/de'")
    before = await page.run("document.querySelector('.source').textContent")
    await there_is(page, f"document.querySelector('.source').textContent != {before!r}")
    assert await page.run("document.querySelector('#bundle').value") == "public/de"
    assert await page.run("document.querySelectorAll('#updated details[open]').length") >= 1


async def test_a_bundle_is_split_and_merged_and_moved(page: Tab, cluster: Quickstart) -> None:
    for act in ("split", "merge", "move"):

        async def has_acted(act: str = act) -> bool:
            bundle = await heaviest(cluster, 2)
            await page.show(f"{cluster.url}/ui/bundles?bundle={quote(bundle)}", 1440, "light")
            return await is_done(page, act)

        await eventually(has_acted, PATIENCE_S, act)


async def test_a_broker_is_drained_and_undrained(page: Tab, cluster: Quickstart) -> None:
    broker = cluster.urls[-1].removeprefix("http://")
    own = f"{cluster.url}/ui/brokers/{quote(broker)}"

    async def is_drained(act: str) -> bool:
        await page.show(own, 1440, "light")
        return await is_done(page, act)

    await eventually(lambda: is_drained("drain"), PATIENCE_S)
    await page.show(f"{cluster.url}/ui/drains", 1440, "light")
    await there_is(page, f"document.querySelector('tbody').innerText.includes('{broker}')")
    await there_is(page, "document.querySelector('tbody').innerText.includes('drained')")
    await eventually(lambda: is_drained("undrain"), PATIENCE_S)
    assert page.complaints == []


async def test_partitions_are_reassigned_with_progress(page: Tab, cluster: Quickstart) -> None:
    await ask(
        "PUT",
        f"{cluster.url}/control/v1/partitions/topics/{TOPIC}",
        {"partitions": 2, "replication_factor": 1},
    )
    await page.show(f"{cluster.url}/ui/partitions?topic={TOPIC}", 1440, "light")
    await there_is(page, "document.querySelectorAll('input[name=brokers]').length == 3")
    await page.run(
        "for (const box of document.querySelectorAll('input[name=brokers]'))"
        " box.checked = box.value == '3'"
    )
    assert "The plan: " in await preview(page, "reassign")
    assert (await confirm(page)).endswith(": done")
    await page.show(f"{cluster.url}/ui/partitions?topic={TOPIC}", 1440, "light")
    rows = "[...document.querySelector('#topic').parentNode.querySelectorAll('tbody tr')]"
    await there_is(page, f"{rows}.every(row => row.cells[3].innerText == '3')")


async def test_names_and_reasons_are_text_wherever_they_appear(
    page: Tab, cluster: Quickstart
) -> None:
    """In the live page too, which a script puts in."""
    root = f"{cluster.url}/admin/v2/clusters/quickstart/namespaceIsolationPolicies"
    policy = {
        "namespaces": ["none/.*"],
        "primary": [HOSTILE],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "100"},
        },
    }
    await ask("POST", f"{root}/odd", policy)
    # A local name has no slash.
    topic = quote(HOSTILE.replace("</script>", ""), safe="")
    await ask("GET", f"{cluster.url}/lookup/v2/topic/persistent/public/default/{topic}")
    reason = {"by": HOSTILE, "reason": HOSTILE}
    await ask("PUT", f"{cluster.url}/control/v1/pause", reason)

    async def shows_names(name: str) -> bool:
        # What the leader says of a pause is up to a second old.
        await page.show(f"{cluster.url}/ui/{name}", 1440, "light")
        return name not in {"policies", ""} or HOSTILE in await text(page)

    for name in ("policies", "", "bundles", "history"):
        await eventually(functools.partial(shows_names, name), PATIENCE_S)
        if name == "":
            await there_is(page, "document.querySelector('#stream').textContent == 'live'")
        assert await page.run("window.isHacked === undefined")
        assert await page.run("document.querySelectorAll('main img').length") == 0
    await ask("DELETE", f"{cluster.url}/control/v1/pause")
    assert page.complaints == []


async def test_the_page_recovers_from_the_loss_of_the_leader(
    page: Tab,
    cluster: Quickstart,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    """Last of all: one daemon is gone afterwards. It records how long the page took."""
    view = await ask("GET", f"{cluster.url}/control/v1/cluster")
    leader = f"http://{view['leader']}"
    follower = next(url for url in cluster.urls if url != leader)
    await page.show(f"{follower}/ui/", 1440, "light")
    await there_is(page, "document.querySelector('#stream').textContent == 'live'")
    await page.run("window.isStillThisPage = true")
    gone = view["leader"]
    await page.run(
        "window.lost = performance.now(); new MutationObserver(() => {"
        " const source = document.querySelector('.source').innerText;"
        f" if (source.startsWith('View of leader') && !source.includes('{gone},'))"
        " window.found = window.found || performance.now();"
        "}).observe(document.querySelector('#updated'), {subtree: true, childList: true,"
        " characterData: true, attributes: true})"
    )
    cluster.kill_daemon(leader)
    await there_is(page, "window.found")
    took_s = float(await page.run("(window.found - window.lost) / 1000"))
    assert await page.run("window.isStillThisPage")
    record_property("recovery_s", took_s)
    if folder := request.config.getoption("screenshots"):
        keep(folder, "leader-lost-1440-light.png", await page.screenshot())
        line = f"{took_s:.1f} s from the SIGKILL of the leader to the view of the next one"
        keep(folder, "recovery.txt", line.encode())
    await page.show(f"{follower}/ui/", 1440, "light")
    assert gone in await text(page) or "Balanc" in await text(page)
