"""Measure the delay of an event loop while a thread beside it plans for many bundles.

Every cycle takes a snapshot, runs the default strategies, and makes a plan, in the kind of thread
that a leader has for it; no plan is carried out. Meanwhile the loop sleeps for 1 ms at a time, and
sends bytes over a connection to itself. It prints:

timer_late_ms   delay of the sleeps: quantiles
echo_ms         round-trip time of the bytes: quantiles
cycle_s         median time of a cycle
cycle_cpu_s     median processor time of a cycle, and of its parts: view, propose, plan
idle            timer_late_ms and echo_ms in the same process before the cycles

With --constraints it plans arrays with every constraint in place of views. The brokers are of three
sizes, in racks, with limits of traffic, messages and topics; each bundle has a partition of one
topic, with a cap of its partitions on a broker; a tenth of the namespaces may only use some racks.
The start is random, so that limits and caps are broken. Each plan first repairs these, then
balances, and then judges the loss of each rack. It prints timer_late_ms, idle, and:

plan_s          seconds of a plan: median, and longest
parts_s         medians of its parts: repairs, balance, loss of a rack
moves           moves of the repairs and of the balance
broken          brokers beyond limits, counts of topics above the cap, bundles on forbidden racks:
                before, and after the plan
max_over_mean   largest usage over the mean: before, after, and the bound that no placement beats

Cruise Control's published figure is 18.2 minutes in its fast mode (95 without) for 2.8 million
replicas of 3,500 topics on 215 brokers (linkedin/cruise-control 1592). Its proposals keep 16 goals
on a JVM: replicas of a partition on different racks, disks, leaders. Here a bundle has neither
replicas nor data, racks restrict where namespaces may be, and there is one objective.
"""

import argparse
import asyncio
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
    parser.add_argument(
        "--constraints", action="store_true", help="plan arrays with every constraint instead"
    )
    arguments = parser.parse_args()
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    import uvloop

    from broker_ctl.codec import encode, encode_pretty
    from broker_ctl.daemon.lifecycle.interpreter import freeze_garbage, switch_often
    from tests.benchmarks.machine.load import with_machine_load
    from tests.benchmarks.planning.constrained import plan_constrained
    from tests.benchmarks.planning.course import Course

    course = None if arguments.constraints else Course(arguments.bundles, arguments.brokers)
    freeze_garbage()
    switch_often()
    if arguments.switch_ms is not None:
        sys.setswitchinterval(arguments.switch_ms / 1000)

    def measure() -> dict[str, Any]:
        if course is None:
            return plan_constrained(arguments.bundles, arguments.brokers, arguments.cycles)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            idle, busy, cycles = runner.run(course.run(arguments.cycles))
        return {**busy.row(), **cycles.row(), "idle": idle.row()}

    found = with_machine_load(measure)
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


if __name__ == "__main__":
    main()
