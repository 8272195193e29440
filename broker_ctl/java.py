"""Which Java there is, and whether it is new enough for the servers and for Spark."""

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
    """What a search for a Java has found.

    Attributes:
        java: the program; None: there is none that is new enough.
        passed_over: each that was met before it, and why it is of no use.
    """

    java: Path | None
    passed_over: tuple[str, ...]

    @property
    def complaint(self) -> str:
        """What to say where there is none, without a remedy."""
        story = f" ({'; '.join(self.passed_over)})" if self.passed_over else ""
        return f"no Java {OLDEST_MAJOR} or newer in JAVA_HOME or PATH{story}"


def installed(environ: Mapping[str, str]) -> Iterator[Path]:
    """The Java of ``JAVA_HOME``, and that of ``PATH``; neither need be there."""
    if home := environ.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield Path(on_path)


async def first_new_enough(candidates: Iterable[Path]) -> Search:
    """The first of these programs that runs and is Java 17 or newer."""
    passed_over: list[str] = []
    for java in candidates:
        major = await _major_version(java)
        if major is not None and major >= OLDEST_MAJOR:
            return Search(java, tuple(passed_over))
        passed_over.append(f"{java} does not run" if major is None else f"{java} is Java {major}")
    return Search(None, tuple(passed_over))


async def _major_version(java: Path) -> int | None:
    """What ``java -version`` says; 1 for Java 8 and older, which call themselves 1.x."""
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
