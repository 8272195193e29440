"""Finds a Java that is new enough for ZooKeeper servers and for Spark."""

import asyncio
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

OLDEST_MAJOR: Final = 17
_PROBE_DEADLINE_S: Final = 10.0
_VERSION: Final = re.compile(rb'version "(\d+)')


class Search(NamedTuple):
    """The result of a search for a Java.

    Attributes:
        java: the program; None if none is new enough.
        passed_over: programs that were rejected before it, each with the reason.
        oldest: the oldest major version that is new enough.
    """

    java: Path | None
    passed_over: tuple[str, ...]
    oldest: int = OLDEST_MAJOR

    @property
    def complaint(self) -> str:
        """The error text if there is none, without a remedy."""
        story = f" ({'; '.join(self.passed_over)})" if self.passed_over else ""
        return f"no Java {self.oldest} or newer in JAVA_HOME or PATH{story}"


def installed(environ: Mapping[str, str]) -> Iterator[Path]:
    """The Java of ``JAVA_HOME`` and that of ``PATH``; either may be missing."""
    if home := environ.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield Path(on_path)


async def first_new_enough(candidates: Iterable[Path], oldest: int = OLDEST_MAJOR) -> Search:
    """The first of these programs that runs and is Java ``oldest`` or newer."""
    passed_over: list[str] = []
    for java in candidates:
        major = await _major_version(java)
        if major is not None and major >= oldest:
            return Search(java, tuple(passed_over), oldest)
        passed_over.append(f"{java} does not run" if major is None else f"{java} is Java {major}")
    return Search(None, tuple(passed_over), oldest)


async def _major_version(java: Path) -> int | None:
    """The major version by ``java -version``; 1 for Java 8 and older, which report 1.x."""
    try:
        probe = await asyncio.create_subprocess_exec(
            java,
            "-version",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError:
        return None
    try:
        async with asyncio.timeout(_PROBE_DEADLINE_S):
            _, answer = await probe.communicate()
    except TimeoutError:
        return None
    finally:
        if probe.returncode is None:
            probe.kill()
            await probe.wait()
    found = _VERSION.search(answer)
    return int(found[1]) if found else None
