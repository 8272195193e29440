"""How long producers waited while bundles moved."""

import time
from collections.abc import Mapping
from typing import Any, Final

from tests.support.pulsar.load import Outcome

# A client that was cut off asks again after a while, doubled each time.
_AFTERMATH_S: Final = 10.0


def interruptions_ms(
    outcome: Outcome, moved: list[dict[str, Any]], bundles: Mapping[str, str]
) -> list[float]:
    """For each transfer the longest send to its bundle that was under way then."""
    wall_to_monotonic_s = time.monotonic() - time.clock_gettime(time.CLOCK_REALTIME)
    found = []
    for row in moved:
        topics = [topic for topic, bundle in bundles.items() if bundle == row["bundle"]]
        began_s = row["at_ms"] / 1000 + wall_to_monotonic_s
        until_s = began_s + row["took_s"] + _AFTERMATH_S
        if topics:
            found.append(1000 * outcome.longest_wait_s(topics, began_s, until_s))
    return found
