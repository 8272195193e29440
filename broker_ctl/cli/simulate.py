"""``broker-ctl simulate``: replay a day of traffic under policies or settings."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import click

from broker_ctl.cli.runtime.output import Output, check_new, echo_json, output_option, print_table
from broker_ctl.cli.runtime.target import config_option, set_option
from broker_ctl.cli.runtime.verbs import needing
from broker_ctl.core.model.safe_text import printable

if TYPE_CHECKING:
    from broker_ctl.cli.replays import ReplayResult, Run
    from broker_ctl.simulation.workload.scenario_workload import WorkloadSource


# Options of ``broker-ctl simulate``: scenarios and outputs.


V = TypeVar("V", bound=Callable[..., None])

_DAY_HOURS: Final = 24
_EXISTING_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_NEW_FILE: Final = click.Path(dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class ScenarioOptions:
    """Options that select scenarios; None or empty if not given."""

    names: tuple[str, ...]
    is_all: bool
    is_list: bool
    hours: int | None
    brokers: int | None
    seed: int | None
    trace: Path | None
    events: Path | None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """From the values of `scenario_options`."""
        return cls(**{field.name: options[field.name] for field in fields(cls)})

    @property
    def is_any(self) -> bool:
        """Whether something to replay is named."""
        return bool(self.names) or self.is_all or self.trace is not None

    @property
    def inputs(self) -> tuple[Path, ...]:
        """Files that are read."""
        return tuple(path for path in (self.trace, self.events) if path is not None)

    def sources(self) -> "list[WorkloadSource]":
        """The sources of the scenarios, without duplicates.

        Raises:
            UsageError: options contradict each other, or there is no such scenario.
        """
        from broker_ctl.simulation.workload.scenario_workload import WorkloadSource

        self._check()
        if self.trace is not None:
            # The name of a file may have control characters, which tables must not print.
            name = printable(self.trace.stem)
            return [WorkloadSource(name, 0, self.brokers, None, self.trace, self.events)]
        hours = _DAY_HOURS if self.hours is None else self.hours
        return [
            WorkloadSource(name, hours, self.brokers, self.seed) for name in self._all_names(hours)
        ]

    def _check(self) -> None:
        if self.names and self.is_all:
            raise click.UsageError("either scenarios or --all")
        if self.events is not None and self.trace is None:
            raise click.UsageError("--events requires --trace")
        if not self.is_any:
            raise click.UsageError("nothing to replay: name scenarios, or use --all or --trace")
        if self.trace is not None and (self.names or self.is_all):
            raise click.UsageError("either scenarios or --trace")
        if self.trace is not None and (self.hours is not None or self.seed is not None):
            raise click.UsageError("--hours and --seed are for scenarios, not for --trace")

    def _all_names(self, hours: int) -> tuple[str, ...]:
        from broker_ctl.simulation.scenarios import NAMES, is_daily

        for name in self.names:
            if name not in NAMES:
                raise click.BadParameter(
                    f"{name!r}; one of {', '.join(NAMES)}", param_hint="'SCENARIO'"
                )
        if self.is_all:
            return tuple(name for name in NAMES if hours <= _DAY_HOURS or is_daily(name))
        return tuple(dict.fromkeys(self.names))


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Options of the output."""

    output: str
    plot: Path | None
    moves: Path | None
    export_trace: Path | None
    is_forced: bool

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """From the values of `output_options`."""
        return cls(**{field.name: options[field.name] for field in fields(cls)})

    @property
    def is_json(self) -> bool:
        """Whether the output is JSON."""
        return self.output == Output.JSON

    def check(self, inputs: Sequence[Path]) -> None:
        """Check the options before the replay; ``inputs`` are not overwritten, even with --force.

        Raises:
            UsageError: options contradict each other, or a file cannot be written.
            ClickException: --plot needs the extra plot, which is not installed.
        """
        if self.export_trace is not None and (self.moves is not None or self.plot is not None):
            raise click.UsageError("--export-trace replays nothing: without --plot and --moves")
        for option, path, suffixes in (
            ("--plot", self.plot, (".svg",)),
            ("--moves", self.moves, (".csv",)),
            ("--export-trace", self.export_trace, (".csv", ".parquet")),
        ):
            if path is None:
                continue
            if path.suffix.lower() not in suffixes:
                what = f"{path}: a name that ends in {' or '.join(suffixes)}"
                raise click.BadParameter(what, param_hint=f"'{option}'")
            check_new(path, option, is_forced=self.is_forced)
            if path.exists() and any(path.samefile(each) for each in inputs):
                raise click.BadParameter(f"{path} is read", param_hint=f"'{option}'")
        if self.plot is not None:
            with needing("plot", "a picture"):
                import_module("broker_ctl.simulation.plots")


_SCENARIO_OPTIONS: Final = (
    click.argument("names", nargs=-1, metavar="[SCENARIO]..."),
    click.option(
        "--all",
        "is_all",
        is_flag=True,
        help="All scenarios; over two days, only those with a daily pattern.",
    ),
    click.option("--list", "is_list", is_flag=True, help="List the scenarios."),
    click.option(
        "--hours", type=click.IntRange(min=1), help="Duration of a scenario.  [default: 24]"
    ),
    click.option(
        "--brokers", type=click.IntRange(min=1), help="Total number of brokers.  [default: 10]"
    ),
    click.option(
        "--seed", type=click.IntRange(min=0), help="Seed, in place of the scenario's own."
    ),
    click.option(
        "--trace", type=_EXISTING_FILE, help="File with recorded traffic, CSV or Parquet."
    ),
    click.option(
        "--events",
        type=_EXISTING_FILE,
        help="File with broker events during --trace, CSV or Parquet.",
    ),
)
_OUTPUT_OPTIONS: Final = (
    output_option(),
    click.option(
        "--plot",
        type=_NEW_FILE,
        metavar="FILE.svg",
        help="Output file for a picture of each scenario (needs the extra plot).",
    ),
    click.option(
        "--moves",
        type=_NEW_FILE,
        metavar="FILE.csv",
        help="Output CSV file with each move and its reason.",
    ),
    click.option(
        "--export-trace",
        type=_NEW_FILE,
        metavar="FILE",
        help=(
            "Write the traffic of one scenario as a file for --trace (.csv or .parquet), and exit."
        ),
    ),
    click.option("--force", "is_forced", is_flag=True, help="Replace existing files."),
)


def scenario_options(verb: V) -> V:
    """Add the options of `ScenarioOptions`."""
    return _with(_SCENARIO_OPTIONS, verb)


def output_options(verb: V) -> V:
    """Add the options of `OutputOptions`."""
    return _with(_OUTPUT_OPTIONS, verb)


def _with(options: Sequence[Callable[[V], V]], verb: V) -> V:
    for option in reversed(options):
        verb = option(verb)
    return verb


# ``broker-ctl simulate``: replay a day of traffic under policies or settings.


_INTERRUPTED: Final = 130
_MOST_JOBS: Final = 64
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


@click.command(epilog=_EXAMPLES)
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
    from broker_ctl.simulation.scenarios import NAMES, is_daily

    return [
        {"name": name, "sentence": SENTENCES[name], "is_daily": is_daily(name)} for name in NAMES
    ]


def _export(sources: "Sequence[WorkloadSource]", path: Path) -> None:
    from broker_ctl.cli.runtime.output import atomic_output
    from broker_ctl.simulation.traces.trace_files import write_traffic
    from broker_ctl.simulation.workload.scenario_workload import scenario_of

    if len(sources) != 1:
        raise click.UsageError("--export-trace requires exactly one scenario")
    traffic = scenario_of(sources[0]).traffic
    with atomic_output(path) as beside:
        write_traffic(traffic, beside)


def _runs(
    sources: "Sequence[WorkloadSource]",
    policies: tuple[str, ...],
    config: Path | None,
    overrides: tuple[str, ...],
) -> "list[Run]":
    """Every scenario under every policy; wrong options fail before the first replay."""
    from broker_ctl.cli.replays import BALANCE, SETTINGS, Run, contestant_of
    from broker_ctl.simulation.replay.replay import POLICIES

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
    from broker_ctl.cli.replays import run_replays
    from broker_ctl.simulation.workload.scenario_workload import scenario_of

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
    from broker_ctl.cli.replays import by_scenario, chart_of, write_moves
    from broker_ctl.cli.runtime.output import atomic_output

    if outputs.moves is not None:
        with atomic_output(outputs.moves) as beside:
            write_moves(beside, results)
    if outputs.plot is not None:
        from broker_ctl.simulation.plots import svg_plot

        picture = svg_plot([chart_of(group) for group in by_scenario(results)])
        with atomic_output(outputs.plot) as beside:
            beside.write_text(picture, encoding="utf-8")


def _show(results: "Sequence[ReplayResult]", outputs: OutputOptions) -> None:
    from broker_ctl.cli.replays import by_scenario, show, to_row

    if outputs.is_json:
        echo_json(to_row(results))
        return
    for group in by_scenario(results):
        show(group)
