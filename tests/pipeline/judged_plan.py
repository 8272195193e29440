"""A cluster's own history becomes a placement plan, and its leader judges it and carries it out.

    python -m tests.pipeline.judged_plan

Runs ``broker-ctl quickstart`` with real processes, waits until its bundles stand still, pauses the
leader, and moves most of them to one broker. What the daemons then write is taken for a whole day:
the same lines again for each earlier hour. Of that the pipeline makes a plan, which is given to the
leader as it is, changed on the way, and to be carried out. Takes some minutes; prints one JSON
object, and the exit code is 1 where something is not as it should be:

seconds             of each command, as the machine was
lines               of the hour, as daemons wrote them
plan                as recommend reports it
judged              moves that the leader takes, and its imbalance before and after them
tampered            how the leader refuses a plan of which one destination was changed
carried_out         what the leader did
at_home             bundles of the plan that are where it wants them, in the end
is_right            all of it
"""

import argparse
import asyncio
import gzip
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from broker_ctl.clock import SystemClock
from tests.pipeline.end_to_end import Console
from tests.support.time.waiting import eventually

_NAMESPACE: Final = "public/default"
_DEADLINE_S: Final = 300.0
_POLL_S: Final = 1.0
_HOURS: Final = 24
_HOUR_MS: Final = 3_600_000
# Bundles before the load is taken for settled, and looks at a ring that stays the same.
_FEWEST: Final = 8
_STILL: Final = 5
# Of each three bundles two go to the first broker.
_CROWDED: Final = (2, 3)
_CYCLES: Final = 5
FoundT = TypeVar("FoundT")


def judged_plan(directory: Path) -> dict[str, Any]:
    """All of it in an empty directory."""
    with _quickstart(directory) as url:
        console = Console(directory)
        _settled(console, url)
        console.run("pause", f"pause --yes --url {url}")
        crowded_ms = _crowded(console, url)
        lines = _eventually(lambda: _lines_since(directory / "cluster", crowded_ms), "history")
        _write_day(directory / "day", lines)
        console.run("ingest", "pipeline ingest day --tables tables --check")
        console.run("profile", "pipeline profile tables --to profiles")
        plan = console.ask(
            "recommend",
            "pipeline recommend --profiles profiles --tables tables --plan-to plan.json",
        )["plan"]
        judged = console.ask("judge", f"plan --from plan.json --url {url}")
        tampered = _tampered(console, directory, url)
        done = console.run(
            "carry_out", f"plan --from plan.json --approve --wait --yes --url {url}"
        ).splitlines()[-1]
        owners = _owners(console, url)
    moves = json.loads((directory / "plan.json").read_bytes())["moves"]
    at_home = sum(owners[move["bundle"]] == move["to"] for move in moves)
    return {
        "seconds": console.seconds,
        "lines": len(lines),
        "plan": plan,
        "judged": {
            "moves": judged["moves"],
            "before": judged["throughput_imbalance_before"],
            "after": judged["throughput_imbalance_after"],
        },
        "tampered": tampered,
        "carried_out": done,
        "at_home": at_home,
        "is_right": all(
            (
                0 < judged["moves"] <= plan["moves"],
                judged["throughput_imbalance_after"] < judged["throughput_imbalance_before"],
                "hash" in tampered,
                done.endswith(f"is done: {judged['moves']} done"),
                at_home >= judged["moves"],
            )
        ),
    }


@contextmanager
def _quickstart(directory: Path) -> Iterator[str]:
    """The web address of one of its daemons."""
    command = [sys.executable, "-m", "broker_ctl", "quickstart", "--headless", "--json"]
    process = subprocess.Popen(
        [*command, "--duration", "1800", "--dir", str(directory / "cluster")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield _eventually(lambda: _url_in(directory / "cluster"), "a broker.conf")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=_DEADLINE_S)


def _url_in(cluster: Path) -> str | None:
    for path in sorted(cluster.glob("broker-*.conf")):
        if port := re.search(r"^webServicePort=(\d+)$", path.read_text(), re.MULTILINE):
            return f"http://127.0.0.1:{port[1]}"
    return None


def _settled(console: Console, url: str) -> None:
    """Every bundle has an owner, and nothing was split or moved for some looks."""
    seen: list[dict[str, str | None]] = []

    def stands_still() -> bool:
        try:
            seen.append(_owners(console, url))
        except RuntimeError:
            # The daemons are starting, or have no leader yet.
            return False
        newest = seen[-_STILL:]
        return (
            len(newest) == _STILL
            and all(owners == newest[0] for owners in newest)
            and len(newest[0]) >= _FEWEST
            and None not in newest[0].values()
        )

    _eventually(stands_still, "bundles that stand still")


def _crowded(console: Console, url: str) -> int:
    """Most bundles on one broker; when that was so, ms since 1970."""
    owners = _owners(console, url)
    first = min(filter(None, owners.values()))
    some, of = _CROWDED
    for number, (bundle, owner) in enumerate(sorted(owners.items())):
        if owner != first and number % of < some:
            console.run("crowd", f"bundles move {bundle} {first} --yes --url {url}")
    return SystemClock().wall_ms()


def _owners(console: Console, url: str) -> dict[str, str | None]:
    rows = console.ask("owners", f"bundles list {_NAMESPACE} --url {url}")
    return {row["bundle"]: row["owner"] for row in rows}


def _lines_since(cluster: Path, since_ms: int) -> list[dict[str, Any]] | None:
    """What the leader saw of loads since then; None before there is enough of it."""
    rows = [row for path in (cluster / "history").iterdir() for row in _rows_of(path)]
    capacities = [row for row in rows if row["kind"] == "capacities"]
    newest = [
        row
        for row in rows
        if row["at_ms"] > since_ms and row["kind"] in {"broker_loads", "bundle_loads"}
    ]
    cycles = {(row["epoch"], row["cycle"]) for row in newest if row["kind"] == "bundle_loads"}
    return [*capacities, *newest] if len(cycles) >= _CYCLES else None


def _rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """Of a complete segment, or of the one that is being written: its last line may be half."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    yield from (json.loads(line) for line in text.splitlines(keepends=True) if line[-1:] == b"\n")


def _write_day(directory: Path, lines: list[dict[str, Any]]) -> None:
    """The same hour for a day; the newest one has the newest epoch."""
    directory.mkdir()
    for earlier in range(_HOURS):
        shifted = (
            {
                **line,
                "id": f"{line['id']}-{earlier}",
                "at_ms": line["at_ms"] - earlier * _HOUR_MS,
                "epoch": line["epoch"] + _HOURS - 1 - earlier,
            }
            for line in lines
        )
        text = "".join(json.dumps(line) + "\n" for line in shifted)
        (directory / f"hour-{earlier:02}.ndjson.gz").write_bytes(gzip.compress(text.encode()))


def _tampered(console: Console, directory: Path, url: str) -> str:
    """How the leader refuses a file that was changed after its hash was computed."""
    row = json.loads((directory / "plan.json").read_bytes())
    first = row["moves"][0]
    first["from"], first["to"] = first["to"], first["from"]
    (directory / "tampered.json").write_text(json.dumps(row))
    return console.refusal("tampered", f"plan --from tampered.json --url {url}").strip()


def _eventually(find: Callable[[], FoundT | None], what: str) -> FoundT:
    return asyncio.run(eventually(find, _DEADLINE_S, what, _POLL_S))


def main() -> None:
    """Run, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dir", type=Path, help="empty; kept")
    arguments = parser.parse_args()
    if arguments.dir is not None:
        arguments.dir.mkdir(parents=True, exist_ok=True)
        found = judged_plan(arguments.dir.absolute())
    else:
        with tempfile.TemporaryDirectory() as directory:
            found = judged_plan(Path(directory))
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    sys.exit(0 if found["is_right"] else 1)


if __name__ == "__main__":
    main()
