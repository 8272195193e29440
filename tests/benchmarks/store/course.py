"""The whole course: an ensemble, warmed up, and on it one part after the other."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from broker_ctl.lab.embedded.ensemble import Ensemble
from broker_ctl.lab.embedded.server import Purpose
from tests.benchmarks.lines.progress import report_progress
from tests.benchmarks.store import latency, secured, storm, throughput
from tests.benchmarks.store.throughput import ThroughputRounds, summary
from tests.benchmarks.store.tree import direct_store

SERVERS: Final = 3
_MB_OF_UNIT: Final = {"m": 1, "g": 1024}
# The servers compile what is asked of them often: before that, figures are of the compiler.
_WARMING: Final = throughput.Extent(count=10_000, warm_count=500, outstanding=2_000, rounds=3)


def heap_mb_of(text: str) -> int:
    """``1g`` or ``512m``, as Java writes it."""
    return int(text[:-1]) * _MB_OF_UNIT[text[-1].lower()]


async def run(parts: Sequence[str], heap_mb: int, *, is_quick: bool) -> dict[str, Any]:
    """The object of the benchmark, with the ``parts`` that were asked for."""
    found: dict[str, Any] = {"is_quick": True} if is_quick else {}
    if set(parts) - {"secured"}:
        found |= await _on_an_ensemble(parts, heap_mb, is_quick=is_quick)
    if "secured" in parts:
        # A server of its own: those of the others know no TLS.
        found["secured"] = await secured.measure(secured.QUICK if is_quick else secured.Extent())
    return found


async def _on_an_ensemble(parts: Sequence[str], heap_mb: int, *, is_quick: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="broker-ctl-metadata-store-") as name:
        # The same servers for all clients.
        purpose = Purpose.QUICK_START if is_quick else Purpose.SUSTAINED_LOAD
        async with Ensemble.of(
            Path(name), servers=SERVERS, heap_mb=heap_mb, purpose=purpose
        ) as ensemble:
            followers = await ensemble.followers()
            # Most clients of an ensemble of three talk to a follower.
            ports = [server.client_port for server in (*followers, await ensemble.leader())]
            async with direct_store(ensemble.connect_string) as store:
                if not is_quick:
                    report_progress("warming up")
                    await ThroughputRounds(store, ports, _WARMING).run()
                if "throughput" in parts:
                    extent = throughput.QUICK if is_quick else throughput.Extent()
                    found |= summary(await ThroughputRounds(store, ports, extent).run())
                if "latency" in parts:
                    quantiles = await latency.measure(store, ports[0], is_quick=is_quick)
                    found["latency_ms"] = quantiles
                    found["added_p50_ms"] = latency.added(quantiles)
                if "storm" in parts:
                    storm_extent = storm.QUICK if is_quick else storm.Extent()
                    found["storm"] = await storm.measure(store, ports, storm_extent)
    return found
