"""The run from start to end."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.benchmarks.lookups.cluster import Cluster, on_a_core_of_its_own, running_cluster
from tests.benchmarks.lookups.cold import measure_cold
from tests.benchmarks.lookups.secured import measure_secured, secured_beside
from tests.benchmarks.lookups.steady import Sizes, Steady
from tests.benchmarks.lookups.traced import measure_traced

PARTS: Final = ("http", "binary", "secured", "traced", "cold")
FULL: Final = Sizes()
QUICK: Final = Sizes(
    topics=300, bundles=60, rounds=1, warm_s=0.1, closed_s=0.5, open_s=0.5, lines=8
)


async def run(
    parts: Sequence[str], *, is_quick: bool, program: Path | None = None
) -> dict[str, Any]:
    """The object, of these parts; ``program`` is another ``broker-ctl``, for the part "traced"."""
    sizes = QUICK if is_quick else FULL
    found: dict[str, Any] = {}
    async with running_cluster() as cluster:
        if set(parts) - {"cold"}:
            async with on_a_core_of_its_own(cluster) as core:
                steady = Steady(cluster, sizes, core)
                scene = await steady.lay()
                if "http" in parts:
                    found |= await steady.measure_http()
                if "binary" in parts:
                    found |= await steady.measure_binary()
                if "secured" in parts:
                    found["secured"] = await _secured(cluster, steady, sizes)
                if "traced" in parts:
                    found["traced"] = await _traced(cluster, steady, sizes, program)
                await steady.check_owners()
                found["scene"] = scene
        if "cold" in parts:
            found["cold"] = await measure_cold(cluster, sizes.bundles)
    if is_quick:
        found["is_quick"] = True
    return found


async def _traced(
    cluster: Cluster, steady: Steady, sizes: Sizes, program: Path | None
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="lookup-traced-") as name:
        return await measure_traced(cluster, steady, sizes, program, Path(name))


async def _secured(cluster: Cluster, steady: Steady, sizes: Sizes) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="lookup-secured-") as name:
        async with (
            secured_beside(cluster, Path(name)) as other,
            on_a_core_of_its_own(other) as core,
        ):
            secured = Steady(other, sizes, core)
            await secured.lay()
            found = await measure_secured(steady, secured, sizes.rounds)
            await secured.check_owners()
            return found
