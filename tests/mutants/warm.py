"""A process that forks one for each run: what all runs import is imported once.

It reads one JSON list from each line of standard input: the module to run, the file for its output,
the seconds after which it is ended, and its arguments. It answers each with a line: the exit
status.
"""

import contextlib
import importlib
import json
import os
import runpy
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, Final

# Neither the package nor its tests: each run imports its own.
_SHARED: Final = (
    *("_pytest.pytester", "aiohttp.web", "aiozk", "click", "cryptography.x509", "hypothesis"),
    *("hypothesis.strategies", "jwt", "numpy", "orjson", "prometheus_client", "psutil", "pytest"),
    *("google.protobuf.message", "pytest_asyncio.plugin", "pytest_timeout", "rich.console"),
    *("rich.table", "trustme", "uvloop", "xdist.plugin", "xdist.scheduler"),
)


def main() -> None:
    """Serve until standard input ends; a signal to end is passed on to the run."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for name in _SHARED:
        importlib.import_module(name)
    for line in sys.stdin:
        module, output, limit_s, arguments = json.loads(line)
        child = os.fork()
        if not child:
            os._exit(_run(module, output, arguments))
        sys.stdout.write(f"{_wait(child, limit_s)}\n")
        sys.stdout.flush()


def _run(module: str, output: str, arguments: list[str]) -> int:
    """Become the run; its processes are a group, to be ended together."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    code: Any = 1
    try:
        with contextlib.ExitStack() as stack:
            nothing = stack.enter_context(Path(os.devnull).open())
            said = stack.enter_context(Path(output).open("w"))
            for number, file in enumerate((nothing, said, said)):
                os.dup2(file.fileno(), number)
            sys.argv = [module, *arguments]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = 0 if ended.code is None else ended.code
    except BaseException:  # noqa: BLE001  # the process ends with it
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else 1


def _wait(child: int, limit_s: float) -> int:
    """The status of the run, which is ended at the limit, with whatever it has started."""

    def end(*_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        _, status = os.waitpid(child, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        end()
    return abs(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
