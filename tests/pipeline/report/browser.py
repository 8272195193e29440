"""A real headless Chromium, driven over its DevTools protocol."""

import asyncio
import base64
import itertools
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.time.waiting import eventually

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_DEADLINE_S = 60.0
_MOST_BYTES = 64 * 1024 * 1024
_MOST_HEIGHT = 6000
# What DevTools answer where a page goes away under a command, or is not there yet.
_NAVIGATED = (
    "Inspected target navigated or closed",
    "Execution context was destroyed.",
    "Cannot find default execution context",
)
# A daemon on a machine that is too busy refuses requests.
_OVERLOADED = "more requests than it can answer"
# The sandbox does not work for root; what is opened are files that the test has made.
_OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--remote-debugging-port=0", "--no-first-run", "--disable-extensions"),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
)


class Navigated(Exception):
    """The page went away before it had answered: nobody knows what the command has done there."""


def chromium() -> str | None:
    """Path of the Chromium of this machine; None where there is none."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


@dataclass
class Tab:
    """One page.

    Attributes:
        complaints: of the console, and of what could not be loaded.
        requests: URLs of all that was asked for.
    """

    socket: aiohttp.ClientWebSocketResponse
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    numbers: Any = field(default_factory=lambda: itertools.count(1))

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask for something, and wait for the answer.

        Raises:
            Navigated: the page went away meanwhile.
        """
        number = next(self.numbers)
        await self.socket.send_json({"id": number, "method": method, "params": params})
        return await self._until(lambda message: message.get("id") == number)

    async def show(self, url: str, width: int, scheme: str) -> None:
        """Load a page from the start, as wide as that, in a light or dark scheme."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        await self.call("Emulation.setDeviceMetricsOverride", **size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", features=features)
        while True:
            known = len(self.complaints)
            await self.socket.send_json(
                {"id": 0, "method": "Page.navigate", "params": {"url": url}}
            )
            await self._until(lambda message: message.get("method") == "Page.loadEventFired")
            if not any(_OVERLOADED in each for each in self.complaints[known:]):
                return
            # A page without one of its scripts: a person would load it again.
            del self.complaints[known:]

    async def run(self, script: str) -> Any:
        """The value of a script."""
        answer = await self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer["result"], answer
        return answer["result"]["result"].get("value")

    async def press(self, key: str) -> None:
        """Press and release a key of the keyboard."""
        for kind in ("rawKeyDown", "keyUp"):
            await self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=9
            )

    async def screenshot(self) -> bytes:
        """A picture of the page as PNG, as it is now, from its top to its end."""
        height = await self.run("document.documentElement.scrollHeight")
        width = await self.run("window.innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, _MOST_HEIGHT), "scale": 1}
        answer = await self.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip
        )
        return base64.b64decode(answer["result"]["data"])

    async def _until(self, is_it: Any) -> dict[str, Any]:
        while True:
            message = await self.socket.receive_json(timeout=_DEADLINE_S)
            match message.get("method"):
                case "Log.entryAdded":
                    self.complaints.append(message["params"]["entry"]["text"])
                case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown":
                    self.complaints.append(str(message["params"]))
                case "Network.requestWillBeSent":
                    self.requests.append(message["params"]["request"]["url"])
            if is_it(message):
                if message.get("error", {}).get("message") in _NAVIGATED:
                    raise Navigated(message["error"]["message"])
                assert "error" not in message, message
                return dict(message)


@asynccontextmanager
async def tab(program: str, directory: Path) -> AsyncIterator[Tab]:
    """A browser of its own, with one empty page; ``directory`` is for its files."""
    process = await asyncio.create_subprocess_exec(
        *(program, *_OPTIONS, f"--user-data-dir={directory}", "about:blank"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        port_file = directory / "DevToolsActivePort"
        await eventually(lambda: port_file.exists() and "\n" in port_file.read_text(), _DEADLINE_S)
        port = port_file.read_text().split()[0]
        async with aiohttp.ClientSession() as http:
            async with http.put(f"http://127.0.0.1:{port}/json/new?about:blank") as reply:
                url = (await reply.json())["webSocketDebuggerUrl"]
            async with http.ws_connect(url, max_msg_size=_MOST_BYTES) as socket:
                opened = Tab(socket)
                for domain in ("Page", "Runtime", "Log", "Network"):
                    await opened.call(f"{domain}.enable")
                yield opened
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def required_tab(request: pytest.FixtureRequest, directory: Path) -> AsyncIterator[Tab]:
    """A tab of the machine's Chromium; the test is skipped, or fails, where there is none."""
    program = chromium()
    if program is None:
        reason = "no Chromium here: apt-get install --no-install-recommends chromium"
        if request.config.getoption("require_chromium"):
            pytest.fail(reason)
        pytest.skip(reason)
    async with tab(program, directory / "profile") as opened:
        yield opened
