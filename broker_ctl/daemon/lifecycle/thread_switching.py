"""How long a computing thread may delay the event loop."""

import sys
from typing import Final

# Python's default of 5 ms adds up: each call in the event loop that releases the interpreter lock
# waits for it again. Half a millisecond costs a plan nothing (docs: measured-planning).
_SWITCH_S: Final = 0.0005


def switch_often() -> None:
    """Switch threads often enough for lookups and heartbeats to continue during a plan."""
    sys.setswitchinterval(_SWITCH_S)
