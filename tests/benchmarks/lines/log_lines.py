"""Lines of a daemon's log that benchmarks take figures from.

mypy does not see that a pattern fits no line any more: `test_names.py` holds each of them to the
format of the line that it is for.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from broker_ctl.lab.embedded.daemons import DaemonProcess

# Groups: topics, partitions, seconds.
CONTROLLER_LOADED: Final = re.compile(r"(\d+) topics, (\d+) partitions read in (\S+) s")
# Group: partition updates.
BROKER_ACKNOWLEDGED: Final = re.compile(r"acknowledged (\d+) partition updates in")
SESSION_OPENED: Final = re.compile(r"session \d+: \w+ -> connected \(opened\)")
# Groups: bundles kept, bundles owned before, most acquisitions at once.
SESSION_REACQUIRED: Final = re.compile(
    r"session \d+: kept (\d+) of (\d+) bundles.*most (\d+) acquisitions"
)
# Group: seconds.
CYCLE_ENDED: Final = re.compile(r"cycle \d+ took (\d+\.\d+) s")

_LINE: Final = re.compile(r"^(\S+ \S+) +\w+ +(\S+): (.*)$")


def matches(
    daemon: DaemonProcess, pattern: re.Pattern[str], since_s: float = 0.0
) -> Iterator[tuple[float, re.Match[str]]]:
    """The wall clock and the match of each line that fits, in seconds, from ``since_s`` on."""
    for line in daemon.files.log.read_text(encoding="utf-8", errors="replace").splitlines():
        parts = _LINE.match(line)
        if parts is None or (found := pattern.search(parts[3])) is None:
            continue
        at_s = datetime.fromisoformat(parts[1]).timestamp()
        if at_s >= since_s:
            yield at_s, found
