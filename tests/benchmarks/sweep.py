"""Compare the replays of a back-test on one core and on two.

Runs two Spark applications, with one core and with two, each in a process of its own. Their start
and a first job, which warms them up, are not measured. They replay the same tasks in turns, so that
other work of the machine slows both. It prints:

replays                number of tasks
cores_1_s, cores_2_s   median time of a job with one core, and with two
ratio                  the one over the other: 2.0 is linear
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import IO, Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
_WORKLOAD: Final = "diurnal"
_BROKERS: Final = 5


class Extent(NamedTuple):
    """How much is measured.

    Attributes:
        replays: tasks of a job.
        hours: of the scenario that each replays.
        rounds: jobs of each application.
    """

    replays: int = 16
    hours: int = 4
    rounds: int = 3


def sweep(extent: Extent | None = None) -> dict[str, Any]:
    """Seconds that the same replays take on one core and on two."""
    wanted = extent or Extent()
    with ExitStack() as stack:
        applications = {cores: stack.enter_context(_application(cores, wanted)) for cores in (1, 2)}
        found: dict[int, list[float]] = {cores: [] for cores in applications}
        for _ in range(wanted.rounds):
            for cores, application in applications.items():
                found[cores].append(_asked(application))
    return {
        "replays": wanted.replays,
        "cores_1_s": round(median(found[1]), 2),
        "cores_2_s": round(median(found[2]), 2),
        "ratio": round(median(found[1]) / median(found[2]), 2),
    }


@contextmanager
def _application(cores: int, extent: Extent) -> Iterator[subprocess.Popen[str]]:
    """A process that replays whenever it is asked; it ends with the block."""
    words = [sys.executable, __file__, "--cores", cores, *_words(extent)]
    with subprocess.Popen(
        [str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            # The first job is for nothing but warmth.
            _asked(process)
            yield process
            _stream(process.stdin).close()
            process.wait()
        finally:
            process.kill()


def _words(extent: Extent) -> Iterator[object]:
    for name, value in extent._asdict().items():
        yield from (f"--{name}", value)


def _asked(process: subprocess.Popen[str]) -> float:
    """Seconds that one job takes.

    Raises:
        RuntimeError: the process has ended.
    """
    asking = _stream(process.stdin)
    asking.write("again\n")
    asking.flush()
    answer = _stream(process.stdout).readline()
    if not answer:
        raise RuntimeError(f"a back-test ended with exit code {process.wait()}")
    return float(answer)


def _stream(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def _answer(cores: int, extent: Extent) -> None:
    """Replay, and print how long it took, for every line that comes in."""
    from broker_ctl.pipeline.backtest.job import replay_all
    from broker_ctl.pipeline.backtest.results import Candidate
    from broker_ctl.pipeline.backtest.tasks import synthetic_trace, tasks_of
    from broker_ctl.pipeline.session import session
    from broker_ctl.simulation.replay.replay import POLICIES
    from broker_ctl.simulation.workload.scenario_workload import WorkloadSource

    candidate = Candidate("balance", "", POLICIES["balance"]())
    trace = synthetic_trace(WorkloadSource(_WORKLOAD, extent.hours, _BROKERS))
    tasks = tasks_of([trace], [candidate], range(extent.replays))
    warm = tasks[: 2 * cores]
    with session(f"local[{cores}]", {}, os.environ) as spark:
        for _ in sys.stdin:
            began_s = time.perf_counter()
            found = replay_all(spark, warm or tasks, lambda _: None)
            sys.stdout.write(f"{time.perf_counter() - began_s}\n")
            sys.stdout.flush()
            assert len(found.rows) == len(warm or tasks)
            warm = []


def main() -> None:
    """Measure and print."""
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(ROOT))
    from broker_ctl.codec import encode, encode_pretty
    from tests.benchmarks.machine.load import with_machine_load

    arguments = _parser().parse_args()
    extent = Extent(arguments.replays, arguments.hours, arguments.rounds)
    if arguments.cores is not None:
        _answer(arguments.cores, extent)
        return
    found = with_machine_load(lambda: sweep(extent))
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


def _parser() -> argparse.ArgumentParser:
    usual = Extent()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on stdout, in one line"
    )
    parser.add_argument("--cores", type=int, help="for the processes of the benchmark itself")
    for name, says in (
        ("replays", "tasks of a job"),
        ("hours", "hours of the scenario in each task"),
        ("rounds", "jobs of each application"),
    ):
        value = getattr(usual, name)
        parser.add_argument(f"--{name}", type=int, default=value, help=f"{says} ({value})")
    return parser


if __name__ == "__main__":
    main()
