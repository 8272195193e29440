"""``broker-ctl simulate``: replay a day of traffic under policies or settings."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.runtime.output import echo_json, print_table
from broker_ctl.cli.runtime.settings_options import config_option, set_option
from broker_ctl.cli.simulate.options import (
    OutputOptions,
    ScenarioOptions,
    output_options,
    scenario_options,
)

if TYPE_CHECKING:
    from broker_ctl.cli.simulate.replays import ReplayResult, Run
    from broker_ctl.simulation.workload.sources import Source

_INTERRUPTED: Final = 130
_MOST_JOBS: Final = 64
_PIPE_WIDTH: Final = 100
SENTENCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "steady-skew": "Noise only; the first broker begins with four times as much as the last.",
        "diurnal": "Three regions have their days at different hours.",
        "flash-crowd": "Twice a day some tenants have four times their traffic for an hour or two.",
        "giant-bundle": "One bundle of many topics has 70 % of a mean broker's load.",
        "giant-topic": "One topic has half of a mean broker's load and cannot be split.",
        "broker-death": "A broker dies and returns four hours later; then another broker does.",
        "rolling-restart": "One broker after the other is drained, stops and returns.",
        "scale-out": "Half of the brokers carry all load until the others join.",
        "scale-in": "Half of the brokers are drained and leave; the others can carry all load.",
        "mixed-hardware": "Half, normal and double brokers; a double one is weaker each afternoon.",
        "tenant-onboarding": "Tenants that were idle move in; later a busy one leaves.",
        "flapping-consumers": "A third of the bundles lose and regain all consumers all the time.",
    }
)
_EXAMPLES: Final = """\b
Examples:
  broker-ctl simulate
  broker-ctl simulate flash-crowd
  broker-ctl simulate flash-crowd --policy balance --policy threshold --plot crowd.svg
  broker-ctl simulate diurnal --set loadBalancerPlannerHighPercentage=115 --moves moves.csv
  broker-ctl simulate diurnal --config broker.conf --policy settings --policy balance
  broker-ctl simulate --all --hours 48 --jobs 4 --output json
  broker-ctl simulate --trace week.parquet --events week-events.csv --brokers 12
  broker-ctl simulate diurnal --export-trace diurnal.csv
"""


@click.command(short_help="Replay a day under a policy, or under settings.", epilog=_EXAMPLES)
@scenario_options
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME",
    help=(
        "balance: the planner with its defaults; settings: a leader under --config, the "
        "environment and --set; overload, threshold, uniform, avg, transfer: Pulsar's "
        "strategies with the defaults of Pulsar 4.0; avg5: avg with those of 5.0. "
        "Repeatable.  [default: balance; settings if any are given]"
    ),
)
@config_option(
    "Configuration file (broker.conf) of the policy settings.", exists=True, name="config"
)
@set_option("Setting that overrides --config; repeatable.")
@click.option(
    "--jobs",
    type=click.IntRange(1, _MOST_JOBS),
    default=1,
    show_default=True,
    help="Number of processes.",
)
@output_options
def command(
    *,
    policies: tuple[str, ...],
    config: Path | None,
    overrides: tuple[str, ...],
    jobs: int,
    **options: Any,
) -> None:
    """Replay scenarios, or recorded traffic, minute by minute under each policy.

    Strategies and rules are those of the daemon; the cluster is simulated, with late reports and
    clients that need time to reconnect. The leader decides each minute. The output has the maximum
    over the mean broker usage (p50, p99 and max over the minutes, without the first ten), the moved
    load, and a bound that no placement can beat. No daemon is contacted.
    """
    scenario, outputs = ScenarioOptions.of(options), OutputOptions.of(options)
    if scenario.is_list or not (scenario.is_any or _has_options(click.get_current_context())):
        _list(outputs)
        return
    sources = scenario.sources()
    outputs.check(scenario.inputs)
    try:
        if outputs.export_trace is not None:
            _export(sources, outputs.export_trace)
        else:
            _replay(_runs(sources, policies, config, overrides), jobs, outputs)
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None


def _replay(runs: "Sequence[Run]", jobs: int, outputs: OutputOptions) -> None:
    results = _run_replays(runs, jobs, outputs)
    _write_files(results, outputs)
    _show(results, outputs)


def _has_options(ctx: click.Context) -> bool:
    """Whether an option other than --output was given."""
    typed = click.core.ParameterSource.COMMANDLINE
    return any(ctx.get_parameter_source(name) is typed for name in ctx.params if name != "output")


def _list(outputs: OutputOptions) -> None:
    rows = _scenario_rows()
    if outputs.is_json:
        echo_json(rows)
    else:
        print_table("", ("scenario", "what happens"), ((r["name"], r["sentence"]) for r in rows))


def _scenario_rows() -> list[dict[str, Any]]:
    """Plain JSON values, in the order of the catalogue."""
    from broker_ctl.simulation.scenarios.catalogue import NAMES, is_daily

    return [
        {"name": name, "sentence": SENTENCES[name], "is_daily": is_daily(name)} for name in NAMES
    ]


def _export(sources: "Sequence[Source]", path: Path) -> None:
    from broker_ctl.cli.runtime.output_files import atomic_output
    from broker_ctl.simulation.traces.trace_files import write_traffic
    from broker_ctl.simulation.workload.sources import scenario_of

    if len(sources) != 1:
        raise click.UsageError("--export-trace requires exactly one scenario")
    traffic = scenario_of(sources[0]).traffic
    with atomic_output(path) as beside:
        write_traffic(traffic, beside)


def _runs(
    sources: "Sequence[Source]",
    policies: tuple[str, ...],
    config: Path | None,
    overrides: tuple[str, ...],
) -> "list[Run]":
    """Every scenario under every policy; wrong options fail before the first replay."""
    from broker_ctl.cli.simulate.replays import BALANCE, SETTINGS, Run, contestant_of
    from broker_ctl.simulation.replay.baselines import POLICIES

    has_settings = config is not None or bool(overrides)
    names = tuple(dict.fromkeys(policies or (SETTINGS if has_settings else BALANCE,)))
    for name in names:
        if name not in (SETTINGS, *POLICIES):
            what = f"{name!r}; one of {', '.join((SETTINGS, *POLICIES))}"
            raise click.BadParameter(what, param_hint="'--policy'")
    if has_settings and SETTINGS not in names:
        raise click.UsageError(f"--config and --set are for --policy {SETTINGS}")
    contestants = {name: contestant_of(name, config, os.environ, overrides) for name in names}
    return [
        Run(source, name, contestant)
        for source in sources
        for name, contestant in contestants.items()
    ]


def _run_replays(runs: "Sequence[Run]", jobs: int, outputs: OutputOptions) -> "list[ReplayResult]":
    from broker_ctl.cli.simulate.replay_pool import run_replays
    from broker_ctl.simulation.workload.sources import scenario_of

    sources = [run.source for run in runs]
    # Load the first scenario now: a wrong size is wrong for all of them.
    first = scenario_of(sources[0]).traffic.minutes
    title = f"{len(runs)} replay{'s' if len(runs) > 1 else ''} of {first} minutes"
    with _bar(title, first * len(runs), is_hidden=outputs.is_json) as progress:
        return run_replays(runs, jobs, progress)


@contextmanager
def _bar(title: str, total: int, *, is_hidden: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, and the function that updates it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (BarColumn(), TaskProgressColumn(), Remaining(), TextColumn("{task.description}"))
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=is_hidden, transient=True) as progress:
        bar = progress.add_task(title, total=total)
        yield lambda minutes: progress.update(bar, completed=minutes)


def _write_files(results: "Sequence[ReplayResult]", outputs: OutputOptions) -> None:
    """Write the output files."""
    from broker_ctl.cli.runtime.output_files import atomic_output
    from broker_ctl.cli.simulate.replay_table import by_scenario, chart_of, write_moves

    if outputs.moves is not None:
        with atomic_output(outputs.moves) as beside:
            write_moves(beside, results)
    if outputs.picture is not None:
        from broker_ctl.simulation.plots.plot_svg import svg_plot

        picture = svg_plot([chart_of(group) for group in by_scenario(results)])
        with atomic_output(outputs.picture) as beside:
            beside.write_text(picture, encoding="utf-8")


def _show(results: "Sequence[ReplayResult]", outputs: OutputOptions) -> None:
    from broker_ctl.cli.simulate.replay_table import by_scenario, chart_of, show, to_row
    from broker_ctl.simulation.plots.plot_text import text_plot

    if outputs.is_json:
        echo_json(to_row(results))
        return
    width = shutil.get_terminal_size((_PIPE_WIDTH, 0)).columns
    for group in by_scenario(results):
        show(group)
        if outputs.is_drawn:
            click.echo(text_plot(chart_of(group), width) + "\n")
