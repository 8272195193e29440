"""Event loops that do not run for a while (I12): busy ones, and one that is as good as dead."""

import random
import signal
from collections.abc import Mapping
from functools import partial
from typing import Final

from tests.chaos.cluster.cluster import EXPIRY_S, SESSION_S, WATCHDOG_S, Cluster
from tests.chaos.faults.configuration_faults import Fault, Mend
from tests.support.time.waiting import eventually

# A thread pings meanwhile.
_BUSY_S: Final = 1.5 * SESSION_S
# No thread runs, so less than two thirds of the session.
_COLLECTED_S: Final = 0.5 * SESSION_S
_DEAD_S: Final = WATCHDOG_S + EXPIRY_S + 2.0
_SLACK_S: Final = 30.0


async def _loop_held(
    number: signal.Signals, seconds: float, cluster: Cluster, draw: random.Random
) -> Mend | None:
    broker = draw.choice(cluster.brokers)
    session = await cluster.session_of(broker)
    files = broker.daemon.files.configuration
    held = files.with_suffix(".held")
    held.unlink(missing_ok=True)
    files.with_suffix(".hold").write_text(str(seconds))
    broker.daemon.signal(number)
    await eventually(held.exists, seconds + _SLACK_S, "the loop to run again")
    begin_ms, end_ms = map(int, held.read_text().split())
    cluster.record_hold(broker, session, begin_ms, end_ms)
    return None


FAULTS: Final[Mapping[str, Fault]] = {
    "loop_busy": partial(_loop_held, signal.SIGUSR1, _BUSY_S),
    "loop_collected": partial(_loop_held, signal.SIGUSR2, _COLLECTED_S),
    "loop_dead": partial(_loop_held, signal.SIGUSR1, _DEAD_S),
}
