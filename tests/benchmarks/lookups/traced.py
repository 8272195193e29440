"""Lookups over HTTP with tracing, by turns with a cluster of the same daemons without it.

Each share of requests that begin a trace has a cluster of its own, whose daemons send their spans
to a collector in this process; it reads them and keeps their number. One more cluster may be of
another installation, such as a release from before there was tracing.
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.benchmarks.lines.progress import report_progress
from tests.benchmarks.lookups.cluster import Cluster, beside, on_a_core_of_its_own
from tests.benchmarks.lookups.steady import Sizes, Steady, by_turns, median
from tests.support.http.web_server import serving
from tests.support.time.waiting import eventually

OFF: Final = "off"
OTHER: Final = "other_program"
# Tracing is on at 0, too: each request asks the sampler, which begins no trace.
SHARES: Final = ("0", "0.01", "1")
_LOOKUP: Final = "GET /lookup/"
_LARGEST_EXPORT: Final = 1 << 24


class Collector:
    """Of OTLP over HTTP.

    Attributes:
        lookups: spans of lookups, by the share at which their daemons trace.
    """

    def __init__(self) -> None:
        self.lookups: Counter[str] = Counter()

    async def receive(self, request: web.Request) -> web.Response:
        """A batch of spans."""
        sent = ExportTraceServiceRequest.FromString(await request.read())
        self.lookups[request.match_info["share"]] += sum(
            span.name.startswith(_LOOKUP)
            for part in sent.resource_spans
            for scope in part.scope_spans
            for span in scope.spans
        )
        return web.Response(content_type="application/x-protobuf")


async def measure_traced(
    cluster: Cluster, steady: Steady, sizes: Sizes, program: Path | None, directory: Path
) -> dict[str, Any]:
    """All of them, round by round; ratios are over the cluster without tracing."""
    collector = Collector()
    async with AsyncExitStack() as stack:
        sides = {OFF: steady}
        app = web.Application(client_max_size=_LARGEST_EXPORT)
        app.add_routes([web.post("/{share}", collector.receive)])
        url = await stack.enter_async_context(serving(app))
        for share in SHARES:
            settings = {
                "clusterName": f"traced-{share}",
                "openTelemetryTracesEndpoint": f"{url}/{share}",
                "openTelemetryTracesRequestRatio": share,
            }
            sides[share] = await stack.enter_async_context(
                _laid(beside(cluster, directory / share, f"/traced-{share}", settings), sizes)
            )
        if program is not None:
            other = beside(
                cluster,
                directory / OTHER,
                "/other",
                {"clusterName": "other"},
                command=(str(program),),
            )
            sides[OTHER] = await stack.enter_async_context(_laid(other, sizes))
        found = await by_turns(
            [partial(one.ours, one.http) for one in sides.values()], sizes.rounds
        )
        await eventually(lambda: all(collector.lookups[share] for share in SHARES[1:]))
    # The first share is none.
    assert collector.lookups[SHARES[0]] == 0, collector.lookups
    rounds = dict(zip(sides, found, strict=True))
    report = {name: _side(each, rounds[OFF]) for name, each in rounds.items()}
    report_progress(f"traced: {report}")
    return {**report, "spans": dict(collector.lookups), "rounds": rounds}


@asynccontextmanager
async def _laid(
    started: AbstractAsyncContextManager[Cluster], sizes: Sizes
) -> AsyncIterator[Steady]:
    async with started as cluster, on_a_core_of_its_own(cluster) as core:
        steady = Steady(cluster, sizes, core)
        await steady.lay()
        yield steady
        await steady.check_owners()


def _side(rounds: Sequence[dict[str, Any]], off: Sequence[dict[str, Any]]) -> dict[str, float]:
    """By the CPU of the daemon, too, which holds on a machine that does other work."""
    ratios = {
        f"{key}_ratio": median(rounds, key) / median(off, key) for key in ("rate", "per_cpu_s")
    }
    return {
        "lookups_s": median(rounds, "rate"),
        "lookups_per_cpu_s": median(rounds, "per_cpu_s"),
        "to_off_ratio": round(ratios["rate_ratio"], 3),
        "to_off_cpu_ratio": round(ratios["per_cpu_s_ratio"], 3),
    }
