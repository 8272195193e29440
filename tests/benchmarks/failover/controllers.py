"""The controller's node is deleted: the next controller is elected, and reads everything.

Operators of Kafka do the same. No broker dies with it, so neither new leaders of its partitions nor
a session timeout are measured. The broker that is elected begins with nothing, even if it was the
controller before.
"""

from dataclasses import dataclass
from typing import Final

from broker_ctl.store import paths
from tests.benchmarks.failover.brokers import now_s, wait_acknowledged
from tests.benchmarks.failover.layout import PARTITIONS_OF_A_TOPIC
from tests.benchmarks.failover.scene import Scene
from tests.benchmarks.lines.log_lines import CONTROLLER_LOADED, matches
from tests.benchmarks.lines.progress import report_progress

_REPLICAS: Final = 3


@dataclass(frozen=True, slots=True)
class Takeover:
    """One of them.

    Attributes:
        seconds: from the deletion of the node until each broker has acknowledged an update of
            every replica that it has.
        reads_per_s: nodes of topics and states, by the new controller's own time.
    """

    seconds: float
    reads_per_s: float


async def measure_takeover(scene: Scene) -> Takeover:
    """One run; nothing has to be mended afterwards."""
    count = scene.layout.partitions
    began_s = now_s()
    await scene.store.delete(paths.CONTROLLER_ELECTION.node_path)
    last_s = await wait_acknowledged(scene, began_s, _REPLICAS * count)
    scene.window_s = began_s, last_s
    ((_, read),) = [
        line
        for daemon in scene.daemons.by_id.values()
        for line in matches(daemon, CONTROLLER_LOADED, began_s)
    ]
    nodes = count + count // PARTITIONS_OF_A_TOPIC
    done = Takeover(last_s - began_s, nodes / float(read[3]))
    report_progress(
        f"  {count}: taken over in {done.seconds:.3f} s, {done.reads_per_s:,.0f} reads a second"
    )
    await scene.wait_whole()
    return done
