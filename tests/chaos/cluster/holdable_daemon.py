"""broker-ctl whose event loop can be held: python -m tests.chaos.cluster.holdable_daemon ARG...

A signal calls the loop back, and nothing else runs there meanwhile. Not the handler itself blocks:
it runs anywhere in the loop's thread, also where that has the lock of a connection's bytes, under
which nothing of the daemon blocks, and the thread that pings would wait for it. SIGUSR1 blocks as a
slow system call does: other threads run. SIGUSR2 blocks as a garbage collection does: none runs.
The file beside the configuration that ends in ``.hold`` says for how many seconds; to the one that
ends in ``.held`` the wall clock is written before and after, in ms.
"""

import asyncio
import ctypes
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from broker_ctl.cli.main import main

_US: Final = 1_000_000
# Other than `ctypes.CDLL`, it keeps the interpreter lock during a call.
_LOCKED: Final = ctypes.PyDLL(None)


def _block(seconds: float) -> None:
    threading.Event().wait(seconds)


def _block_all_threads(seconds: float) -> None:
    _LOCKED.usleep(round(seconds * _US))


def _install(number: signal.Signals, block: Callable[[float], None], files: Path) -> None:
    def hold() -> None:
        begin_ms = time.time_ns() // _US
        block(float(files.with_suffix(".hold").read_text()))
        part = files.with_suffix(".held-part")
        part.write_text(f"{begin_ms} {time.time_ns() // _US}")
        part.rename(files.with_suffix(".held"))

    def handle(*_: object) -> None:
        asyncio.get_running_loop().call_soon_threadsafe(hold)

    signal.signal(number, handle)


if __name__ == "__main__":
    _install(signal.SIGUSR1, _block, Path(sys.argv[-1]))
    _install(signal.SIGUSR2, _block_all_threads, Path(sys.argv[-1]))
    main()
