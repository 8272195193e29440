"""``broker-ctl advise``: how many brokers the cluster needs."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import click

from broker_ctl.cli.runtime.output import echo, echo_json, output_option, print_facts, print_table
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verbs import VerbGroup
from broker_ctl.core.planning.size import (
    WEEK_DAYS,
    DayLoad,
    SizeRules,
    advise_for_peak,
    backtest_size,
    weekly_peak,
)
from broker_ctl.core.rules.leader_rules import BalanceRules

# Options of the commands that advise on the size of a cluster by history.


_F = TypeVar("_F", bound=Callable[..., Any])


growth_option: Final = click.option(
    "--growth",
    "growth_percent",
    type=click.IntRange(0, 1000),
    default=0,
    show_default=True,
    metavar="PERCENT",
    help="Assume that the load grows by so much.",
)


def size_options(command: _F) -> _F:
    """Growth, failure domains and limit."""
    for option in (
        click.option(
            "--limit",
            "limit_percent",
            type=click.IntRange(1, 100),
            default=85,
            show_default=True,
            metavar="PERCENT",
            help="Usage that no broker should exceed, as loadBalancerHeadroomLimitPercentage.",
        ),
        click.option(
            "--domains",
            type=click.IntRange(0, 1000),
            default=0,
            metavar="COUNT",
            help="Failure domains over which the brokers are spread, one of which may be lost.",
        ),
        growth_option,
    ):
        command = option(command)
    return command


def rules_of(growth_percent: int, domains: int, limit_percent: int) -> SizeRules:
    """The rules by the options."""
    rules = SizeRules.of(BalanceRules())
    return replace(
        rules,
        growth_ratio=growth_percent / 100,
        domains=domains,
        limit_ratio=limit_percent / 100,
    )


# ``broker-ctl advise``: what the cluster should be like.


_EXAMPLES: Final = """\b
Examples:
  broker-ctl advise size
  broker-ctl advise size --growth 30
  broker-ctl advise size --output json
  broker-ctl advise backtest diurnal --days 14
"""


@click.group(cls=VerbGroup, epilog=_EXAMPLES)
def command() -> None:
    """Advise on the cluster, by the load that the leader sees."""


@command.command(epilog=_EXAMPLES)
@growth_option
@daemon_options
def size(target: Target, *, growth_percent: int) -> None:
    """Show how many brokers the load needs, now and after a loss.

    No broker shall exceed loadBalancerHeadroomLimitPercentage, even after the loss of the largest
    broker, or of a whole failure domain if there are at least two. Numbers are of brokers of the
    mean size. They are lower bounds: large bundles and policies may need more.

    The advice is for the load of this moment. For the weekly peak, broker-ctl pipeline size reads
    the history; without one, take the maximum of the metric broker_ctl_recommended_brokers over
    seven days.
    """
    query = {"growth_percent": str(growth_percent)} if growth_percent else {}
    advice = target.run(lambda client: client.get("/control/v1/advice/size", query))
    if target.is_json:
        echo_json(advice)
        return
    sentence = advice.pop("sentence")
    print_facts("size", advice)
    echo(sentence)


@command.command(epilog=_EXAMPLES)
@click.argument("scenario")
@click.option(
    "--days",
    type=click.IntRange(2, 60),
    default=14,
    show_default=True,
    help="Length of the scenario.",
)
@click.option("--seed", type=click.IntRange(0), help="Seed of the scenario; default: its own.")
@size_options
@output_option()
def backtest(
    *,
    output: str,
    scenario: str,
    days: int,
    seed: int | None,
    growth_percent: int,
    domains: int,
    limit_percent: int,
) -> None:
    """Judge size advice on a named scenario of several days.

    The advice of each day, for the fullest hour of the last seven days, is judged by the next day:
    whether the advised brokers, less those that may be lost, carry its peak, and how many of them
    it does not need. broker-ctl pipeline size does the same on the history of a cluster.
    """
    from broker_ctl.simulation.model.scenario import day_loads
    from broker_ctl.simulation.scenarios import NAMES, is_daily
    from broker_ctl.simulation.scenarios import scenario as draw

    names = [name for name in NAMES if is_daily(name)]
    if scenario not in names:
        what = f"{scenario!r}; one of {', '.join(names)}"
        raise click.BadParameter(what, param_hint="'SCENARIO'")
    drawn = draw(scenario, hours=days * 24, seed=seed)
    row = size_row(scenario, day_loads(drawn), rules_of(growth_percent, domains, limit_percent))
    if output == "json":
        echo_json(row)
    else:
        print_size(row)


# The advice by a history as JSON and as tables; `broker-ctl pipeline` prints it, too.


_COLUMNS = ("day", "advised", "needed", "usage after a loss", "verdict")


def size_row(of: str, days: Sequence[DayLoad], rules: SizeRules) -> dict[str, Any]:
    """The advice for the weekly peak, and the back-test of it and of the day alone."""
    advice, peak = advise_for_peak(days, rules), weekly_peak(days)
    return {
        "of": of,
        "days": len(days),
        "peak_day": None if peak is None else peak.day,
        "peak_mean_brokers": None if peak is None else peak.mean_brokers,
        "growth_ratio": rules.growth_ratio,
        "limit_ratio": rules.limit_ratio,
        "needed": None if advice is None else advice.needed,
        "needed_with_broker_lost": None if advice is None else advice.with_broker_lost,
        "needed_with_domain_lost": None if advice is None else advice.with_domain_lost,
        "recommended": None if advice is None else advice.recommended,
        "backtests": [backtest_size(days, rules, window).to_row() for window in (WEEK_DAYS, 1)],
    }


def print_size(row: dict[str, Any]) -> None:
    """The days, the advice, and what it was worth."""
    week, day = row["backtests"]
    cells = [
        (
            each["day"],
            each["advised"],
            each["needed"],
            f"{each['usage_after_loss_ratio']:.0%}",
            "enough" if each["is_enough"] else f"{-each['spare']} missing",
        )
        for each in week["verdicts"]
    ]
    if cells:
        print_table("advice of each day, judged by the next one", _COLUMNS, cells)
    print_facts("size", {name: row[name] for name in row if name != "backtests"})
    echo(week["sentence"])
    echo(day["sentence"])
