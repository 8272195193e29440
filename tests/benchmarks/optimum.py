"""Compare the planner with the optimum: how even the brokers become, and how much load moves.

Small clusters, up to 12 brokers and 200 bundles, are drawn and solved exactly by HiGHS, beside the
planner in the same run. It starts no server. It prints:

cases        how many were drawn
median_max_gap, median_moved_gap
             by group of cases (all; split: no bundle is above a tenth of a mean broker, as a leader
             has it after its splits; whole: some are; proven: the optimum is proven). By how much
             our maximum is above the least that the solver found, which begins with ours; and by
             how much we move more than the least that it found for the same maximum
median_max_over_bound, median_moved_over_bound
             the same over what the solver has proven that nothing can be below: where it ran out of
             time, the truth is between the two
proven_max, proven_moved
             cases whose optimum is proven, within 0.2 % and 1 %
worst_max, worst_moved
             the cases with the largest gaps
gaps         every case, with --json
days         by scenario, with --days: our p99 and moved load of a day, and the least moved load
             that keeps the same p99, by a linear program that knows the day before it begins and
             may divide bundles as it likes; the regret is the difference

To get as low as it can, the planner is given narrower and narrower bands. What it moves is compared
in a band without hysteresis, 4 % above the mean.

All of it takes long. It can be measured in parts, which --join puts together:

    optimum.py --json --first 0 --cases 100 > first.json
    optimum.py --json --first 100 --cases 100 > second.json
    optimum.py --json --cases 0 --days > days.json
    optimum.py --json --join first.json second.json days.json
"""

import argparse
import sys
from pathlib import Path


def main() -> None:
    """Measure and print."""
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from broker_ctl.cli.runtime.output import print_facts
    from broker_ctl.codec import decode_object, encode
    from broker_ctl.simulation.scenarios import NAMES
    from tests.benchmarks.machine.load import with_machine_load
    from tests.benchmarks.optimal.course import joined, run

    parser = _parser()
    arguments = parser.parse_args()
    days = arguments.scenario or (NAMES if arguments.days else ())
    if unknown := [name for name in days if name not in NAMES]:
        parser.error(f"scenario {unknown[0]!r}: one of {', '.join(NAMES)}")
    if arguments.join:
        found = joined(decode_object(path.read_bytes()) for path in arguments.join)
    else:
        numbers = range(arguments.first, arguments.first + arguments.cases)
        found = with_machine_load(lambda: run(numbers, arguments.seconds, arguments.jobs, days))
    if arguments.json:
        sys.stdout.write(encode(found).decode() + "\n")
    else:
        print_facts("benchmark", {key: found[key] for key in found if key != "gaps"})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on stdout, in one line"
    )
    parser.add_argument("--cases", type=int, default=200, help="how many are drawn (200)")
    parser.add_argument("--first", type=int, default=0, help="number of the first draw (0)")
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="most that the solver takes for a program (3)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes at once (2)")
    parser.add_argument(
        "--days", action="store_true", help="also the regret of a day of every scenario"
    )
    parser.add_argument(
        "--scenario", action="append", help="likewise, only of this scenario; repeatable"
    )
    parser.add_argument(
        "--join", type=Path, nargs="+", help="measure nothing: join the objects in these files"
    )
    return parser


if __name__ == "__main__":
    main()
