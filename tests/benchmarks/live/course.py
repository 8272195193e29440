"""The same minutes twice: with daemons, and in the simulator."""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Any

from broker_ctl.daemon.wiring.part_rules import leader_rules
from broker_ctl.lab.embedded.ensemble import Ensemble
from broker_ctl.settings.root import Settings
from broker_ctl.simulation.model.scenario import ReplayPace
from broker_ctl.simulation.replay.cluster import Replay
from broker_ctl.simulation.replay.replay import replay
from broker_ctl.simulation.replay.scores import scores_of
from broker_ctl.simulation.scenarios import scenario
from tests.benchmarks.lines.progress import report_progress
from tests.benchmarks.live.cluster import Wanted, cluster_of, cut
from tests.benchmarks.live.watching import Run, replay_of

_SHOWN = ("p50", "p99", "max", "moves", "load_moved_pct_per_h", "back_and_forth")


async def run(wanted: Wanted, keep: Path | None = None) -> dict[str, Any]:
    """Both, and how far apart they are; ``keep``: where logs stay."""
    played = cut(
        scenario(wanted.name, brokers=wanted.brokers, seed=wanted.seed or None), wanted.minutes
    )
    async with AsyncExitStack() as stack:
        temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="live-"))
        directory = Path(temporary) if keep is None else keep
        ensemble = await stack.enter_async_context(Ensemble.of(directory / "zookeeper", 3))
        report_progress("three servers serve")
        cluster = await stack.enter_async_context(
            cluster_of(wanted, played, ensemble.connect_string, "", directory)
        )
        report_progress(f"{len(played.owners)} bundles are at their brokers")
        await cluster.play()
        report_progress(f"{wanted.minutes} minutes were played")
        transfers = await cluster.transfers()
        story = list(cluster.watch.story)
    of_run = Run(played, cluster.origin_s, wanted.minute_s, cluster.broker_ids)
    live = _shown(replay_of(of_run, story))
    pace = _pace(transfers, wanted.minute_s)
    simulated = _shown(replay(played, leader_rules(Settings()), pace))
    return {
        "scenario": wanted.name,
        "minutes": wanted.minutes,
        "brokers": wanted.brokers,
        "bundles": len(played.owners),
        "live": live,
        "simulated": simulated,
        "difference_p99": round(live["p99"] - simulated["p99"], 4),
        "move_s": round(pace.move_s, 2),
        "failed_moves": sum(row["result"] != "done" for row in transfers),
    }


def _pace(transfers: Sequence[Mapping[str, Any]], minute_s: float) -> ReplayPace:
    """The usual one, but a move takes as long as it did; simulated clients are back at once."""
    took_s = [row["took_s"] for row in transfers if row["result"] == "done"]
    if not took_s:
        return ReplayPace()
    return ReplayPace(unload_s=median(took_s) * 60 / minute_s, reconnect_s=0.0)


def _shown(found: Replay) -> Mapping[str, Any]:
    row = scores_of(found).to_row()
    return {name: round(row[name], 4) for name in _SHOWN}
