"""Measure the delay of an event loop while a thread beside it plans for many bundles.

Every cycle takes a snapshot, runs the default strategies, and makes a plan, in the kind of thread
that a leader has for it; no plan is carried out. Meanwhile the loop sleeps for 1 ms at a time, and
sends bytes over a connection to itself. It prints:

timer_late_ms   delay of the sleeps: quantiles
echo_ms         round-trip time of the bytes: quantiles
cycle_s         median time of a cycle
idle            timer_late_ms and echo_ms in the same process before the cycles
"""

import argparse
import asyncio
import statistics
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on stdout, in one line"
    )
    parser.add_argument(
        "--bundles", type=int, default=100_000, help="bundles of all brokers (100000)"
    )
    parser.add_argument("--brokers", type=int, default=100, help="live brokers (100)")
    parser.add_argument("--cycles", type=int, default=3, help="cycles to measure (3)")
    parser.add_argument(
        "--switch-ms", type=float, help="interval after which threads switch (as in a daemon)"
    )
    arguments = parser.parse_args()
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    import uvloop

    from broker_ctl.codec import encode, encode_pretty
    from broker_ctl.daemon.lifecycle.gc_tuning import freeze_garbage
    from broker_ctl.daemon.lifecycle.thread_switching import switch_often
    from tests.benchmarks.machine.load import with_machine_load
    from tests.benchmarks.planning.course import Course

    course = Course(arguments.bundles, arguments.brokers)
    freeze_garbage()
    switch_often()
    if arguments.switch_ms is not None:
        sys.setswitchinterval(arguments.switch_ms / 1000)

    def measure() -> dict[str, Any]:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            idle, busy, cycles_s = runner.run(course.run(arguments.cycles))
        cycle_s = round(statistics.median(cycles_s), 2)
        return {**busy.row(), "cycle_s": cycle_s, "idle": idle.row()}

    found = with_machine_load(measure)
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


if __name__ == "__main__":
    main()
