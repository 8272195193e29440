"""What axe-core finds wrong with a page for people who use a keyboard or a screen reader.

axe-core is vendored unchanged, as npm's axe-core@4.12.1 has it, under the MPL 2.0: it is a tool of
the tests and is never served.
"""

from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.pipeline.report.browser import Tab

AXE: Final = Path(__file__).parent / "vendor" / "axe.min.js"
AXE_SHA256: Final = "84494fec757e4710dc751c8d7a636e457f4532f08f85c86dc9070133fbff53bc"
# WCAG 2.2 at level AA, and what is a good practice beyond it.
_TAGS: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_RUN: Final = """
axe.run(document, {runOnly: %s, resultTypes: ['violations']}).then(found => found.violations.map(
  each => `${each.id}: ${each.help}: ` + each.nodes.map(node => node.html).slice(0, 3).join(' | ')
))
"""


async def violations(page: Tab) -> list[str]:
    """Rules that the page breaks, each with the elements that break it."""
    source = AXE.read_bytes()
    assert sha256(source).hexdigest() == AXE_SHA256
    await page.run(f"{source.decode()}; 0")
    answer = await page.call(
        "Runtime.evaluate", expression=_RUN % _TAGS, awaitPromise=True, returnByValue=True
    )
    assert "exceptionDetails" not in answer["result"], answer
    return list(answer["result"]["result"]["value"])
