"""How long a thread that computes may keep the event loop waiting."""

import sys
from typing import Final

# Python's own 5 ms are felt several times in a turn of the loop: each call that lets other threads
# run waits as long again. Half a millisecond costs a plan nothing (docs: measured-planning).
_SWITCH_S: Final = 0.0005


def switch_often() -> None:
    """Let threads take turns often enough for lookups and heartbeats to go on during a plan."""
    sys.setswitchinterval(_SWITCH_S)
