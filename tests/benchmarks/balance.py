"""Compare the planner with Pulsar's strategies: how even the brokers are, and how much load moves.

Replays the named scenarios, or a recorded one, under each pair of a shedding and a placement
strategy, in processes of their own. It starts no server. It prints:

avg5 is avg with the defaults of Pulsar 5.0: half of a difference is unloaded, 32 even bundles in
each namespace at the start, and bundles of a namespace are not spread evenly.

scenarios                  by scenario and policy. p50, p99 and max: the largest usage of a broker
                           over the mean usage, once a minute, without the first ten minutes.
                           load_moved_pct_per_h and moves: for any cause. back_and_forth: moves
                           undone within an hour, without those of drains, deaths and refills.
                           settle_min: minutes until the usage is even (null: never).
                           overload_broker_min: minutes of brokers above 85 % usage
bound                      by scenario: the least ratio that a placement can reach
planning_s                 by bundles and brokers: seconds from a random placement to one within
                           1.05 of the bound
planning_result_over_bound by bundles and brokers: the ratio reached, over the bound
planning_moves             by bundles and brokers: moves of the plan
verdict                    which policy dominates which on p99 and on load moved; two values of p99
                           that differ by less than 0.01 count as equal
peak_rss_mb                memory of the largest process

The figures of planning are measured only with all scenarios, without --scenario, --seed and
--trace.

The whole table takes long. --part K/N measures one of N parts of it, some runs of each scenario,
and --join puts the objects of the parts together: the scores of a replay do not depend on the
machine.

    for part in 1 2 3 4; do balance.py --json --part $part/4 > part$part.json; done
    balance.py --json --join part?.json
"""

import argparse
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Measure and print."""
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from broker_ctl.codec import decode_object
    from broker_ctl.errors import SettingsError
    from tests.benchmarks.balancing.course import Wanted, run
    from tests.benchmarks.balancing.part import WHOLE, Part, joined
    from tests.benchmarks.machine.load import with_machine_load

    parser = _parser()
    arguments = parser.parse_args()
    if arguments.events is not None and arguments.trace is None:
        parser.error("--events goes with --trace")
    if arguments.trace is not None and arguments.scenario:
        parser.error("either --trace or --scenario")
    try:
        part = WHOLE if arguments.part is None else Part.parse(arguments.part)
    except ValueError as error:
        parser.error(f"--part {error}")
    if arguments.join:
        parts = [decode_object(path.read_bytes()) for path in arguments.join]
        _print(joined(parts), is_json=arguments.json)
        return
    try:
        wanted = Wanted.of(
            names=arguments.scenario,
            policies=arguments.policy,
            hours=arguments.hours,
            seeds=arguments.seed,
            part=part,
            trace=arguments.trace,
            events=arguments.events,
            brokers=arguments.brokers,
        )
        found = with_machine_load(lambda: run(wanted, arguments.jobs))
    except SettingsError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    _print(found, is_json=arguments.json)


def _print(found: dict[str, Any], *, is_json: bool) -> None:
    from broker_ctl.codec import encode
    from tests.benchmarks.balancing.shown import show

    if is_json:
        sys.stdout.write(encode(found).decode() + "\n")
    else:
        show(found)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on stdout, in one line"
    )
    parser.add_argument("--scenario", action="append", help="only this scenario; repeatable")
    parser.add_argument("--policy", action="append", help="only this policy; repeatable")
    parser.add_argument(
        "--seed", type=int, action="append", help="each scenario with this seed; repeatable"
    )
    parser.add_argument("--part", help="only one of several parts of all runs, as 2/4")
    parser.add_argument(
        "--join", type=Path, nargs="+", help="measure nothing: join the objects in these files"
    )
    parser.add_argument(
        "--hours",
        type=int,
        default=24,
        help="length of each scenario (24); above 24, only scenarios with a daily pattern are run",
    )
    parser.add_argument(
        "--trace", type=Path, help="file of recorded traffic, in place of the scenarios"
    )
    parser.add_argument("--events", type=Path, help="file of broker events during the --trace")
    parser.add_argument("--brokers", type=int, default=10, help="brokers of the --trace (10)")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once (2)")
    return parser


if __name__ == "__main__":
    main()
