"""The planner against Pulsar's strategies: how even the brokers are, and how much moves for it.

Replays the named scenarios, or a recorded one, under each pair of shedding and placement, in
processes of their own. Starts no server. Printed is:

scenarios                  by name and policy: p50, p99 and max of the largest usage over the mean
                           usage of the brokers, each minute, the first ten cut;
                           load_moved_pct_per_h, moves, back_and_forth (within an hour, without
                           drains, deaths and refills), settle_min (null: never),
                           overload_broker_min (above 85 %)
bound                      what no placement can beat, of each scenario
planning_s                 from a random placement to one that is within 1.05 of the bound, by
                           bundles and brokers
planning_result_over_bound where it ended
verdict                    who dominates whom on p99 and load moved; two p99 that are less than
                           0.01 apart are equal
peak_rss_mb                of the largest process

Planning is measured with all scenarios only: not with --scenario, and not with --trace.
"""

import argparse
import sys
from pathlib import Path


def main() -> None:
    """Measure and print."""
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from broker_ctl.codec import encode
    from broker_ctl.errors import SettingsError
    from tests.benchmarks.balancing.course import Wanted, run
    from tests.benchmarks.balancing.shown import show

    parser = _parser()
    arguments = parser.parse_args()
    if arguments.events is not None and arguments.trace is None:
        parser.error("--events goes with --trace")
    if arguments.trace is not None and arguments.scenario:
        parser.error("either --trace or --scenario")
    try:
        wanted = Wanted.of(
            names=arguments.scenario,
            policies=arguments.policy,
            hours=arguments.hours,
            trace=arguments.trace,
            events=arguments.events,
            brokers=arguments.brokers,
        )
        found = run(wanted, arguments.jobs)
    except SettingsError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    if arguments.json:
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
    parser.add_argument("--scenario", action="append", help="only this one; repeatable")
    parser.add_argument("--policy", action="append", help="only this one; repeatable")
    parser.add_argument(
        "--hours", type=int, default=24, help="of each scenario; above 24 those with a next day"
    )
    parser.add_argument("--trace", type=Path, help="recorded traffic instead of the scenarios")
    parser.add_argument("--events", type=Path, help="what befell the brokers meanwhile")
    parser.add_argument("--brokers", type=int, default=10, help="of a recorded scenario (10)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    return parser


if __name__ == "__main__":
    main()
