"""Both sides in turn: cold namespaces, then one that is owned."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final

from tests.benchmarks.lines.progress import report_progress
from tests.benchmarks.lookups.asking import Asking, ask
from tests.benchmarks.lookups.steady import by_turns, median
from tests.benchmarks.lookups_beside.cold_pass import ColdPass, pass_through
from tests.benchmarks.lookups_beside.sides import TENANT, Side, Sides

PROTOCOLS: Final = ("http", "binary")
_COLD: Final = ("all_owned_s", "p50_ms", "p99_ms")


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything.

    Attributes:
        jit_s: how long each side is asked in each protocol before the first figure.
        lines: connections; ``depth`` lookups are on their way on one of the binary protocol.
        rate: lookups a second of the open loop.
    """

    topics: int = 10_000
    bundles: int = 1_000
    rounds: int = 3
    jit_s: float = 15.0
    warm_s: float = 1.0
    closed_s: float = 5.0
    open_s: float = 4.0
    lines: int = 32
    depth: int = 4
    rate: float = 1000.0


FULL: Final = Sizes()
QUICK: Final = Sizes(
    topics=300, bundles=60, rounds=1, jit_s=1.0, warm_s=0.1, closed_s=0.5, open_s=0.5, lines=8
)

Found = dict[str, dict[str, Any]]


async def measured(sides: Sides, sizes: Sizes) -> dict[str, Any]:
    """The object of the benchmark."""
    return {
        "pulsar_version": sides.version,
        **asdict(sizes),
        **{protocol: await _protocol(sides, sizes, protocol) for protocol in PROTOCOLS},
    }


async def _protocol(sides: Sides, sizes: Sizes, protocol: str) -> dict[str, Any]:
    is_binary = protocol == "binary"
    own = f"warm-{protocol}"
    found: Found = {side.name: {} for side in sides.both}
    tasks: list[Asking] = []
    for side in sides.both:
        tasks.append(await _owned(side, own, sizes, is_binary=is_binary))
        report_progress(f"{side.name}, {protocol}: asked for {sizes.jit_s} s")
        await ask(replace(tasks[-1], warm_s=0, measured_s=sizes.jit_s))
    fast = await by_turns([partial(ask, task) for task in tasks], sizes.rounds)
    paced = [replace(task, rate=sizes.rate, measured_s=sizes.open_s) for task in tasks]
    slow = await by_turns([partial(ask, task) for task in paced], sizes.rounds)
    for side, closed, opened in zip(sides.both, fast, slow, strict=True):
        found[side.name] = {
            "lookups_s": median(closed, "rate"),
            "per_cpu_s": median(closed, "per_cpu_s"),
            "p99_ms": median(closed, "p99_ms"),
            "p50_ms_at_rate": median(opened, "p50_ms"),
            "p99_ms_at_rate": median(opened, "p99_ms"),
        }
    for name, cold in (await _cold(sides, sizes, is_binary=is_binary)).items():
        found[name]["cold"] = cold
    return {**found, "ratio": ratio(*found.values())}


async def _owned(side: Side, local: str, sizes: Sizes, *, is_binary: bool) -> Asking:
    """Every bundle of a namespace has its owner; what is to be asked there."""
    await side.make_namespace(local, sizes.bundles)
    task = Asking(
        port=side.binary_port if is_binary else side.http_port,
        pid=side.pid,
        namespace=f"{TENANT}/{local}",
        topics=sizes.topics,
        lines=sizes.lines,
        depth=sizes.depth if is_binary else 1,
        warm_s=sizes.warm_s,
        measured_s=sizes.closed_s,
        is_binary=is_binary,
    )
    await pass_through(_pass_of(side, local, sizes, is_binary=is_binary))
    return task


async def _cold(sides: Sides, sizes: Sizes, *, is_binary: bool) -> dict[str, dict[str, float]]:
    """Each round has a namespace of its own."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for number in range(sizes.rounds):
        local = f"cold-{'binary' if is_binary else 'http'}-{number}"
        for side in sides.both:
            await side.make_namespace(local, sizes.bundles)
            one = await pass_through(_pass_of(side, local, sizes, is_binary=is_binary))
            report_progress(f"{side.name}: {local}: {one}")
            found[side.name].append(one)
    return {
        name: {key: median(rounds, key) for key in (*_COLD, "asked_again")}
        for name, rounds in found.items()
    }


def _pass_of(side: Side, local: str, sizes: Sizes, *, is_binary: bool) -> ColdPass:
    return ColdPass(
        port=side.binary_port if is_binary else side.http_port,
        namespace=f"{TENANT}/{local}",
        bundles=sizes.bundles,
        lines=sizes.lines * sizes.depth,
        is_binary=is_binary,
    )


def ratio(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, float]:
    """Ours over theirs, of each figure that both have and that is not 0."""
    pairs: Sequence[tuple[str, float, float]] = [
        *((name, ours[name], theirs[name]) for name in ours if name != "cold"),
        *((f"cold_{name}", ours["cold"][name], theirs["cold"][name]) for name in _COLD),
    ]
    return {name: round(own / other, 3) for name, own, other in pairs if other}
