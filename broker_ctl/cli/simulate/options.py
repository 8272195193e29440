"""Options of ``broker-ctl simulate``: scenarios and outputs."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import click

from broker_ctl.cli.runtime.extras import needing
from broker_ctl.cli.runtime.formats import Output, output_option
from broker_ctl.cli.runtime.output_files import check_new
from broker_ctl.core.model.printable import printable

if TYPE_CHECKING:
    from broker_ctl.simulation.workload.sources import Source

V = TypeVar("V", bound=Callable[..., None])

TERMINAL: Final = "-"
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

    def sources(self) -> "list[Source]":
        """The sources of the scenarios, without duplicates.

        Raises:
            UsageError: options contradict each other, or there is no such scenario.
        """
        from broker_ctl.simulation.workload.sources import Source

        self._check()
        if self.trace is not None:
            # The name of a file may have control characters, which tables must not print.
            name = printable(self.trace.stem)
            return [Source(name, 0, self.brokers, None, self.trace, self.events)]
        hours = _DAY_HOURS if self.hours is None else self.hours
        return [Source(name, hours, self.brokers, self.seed) for name in self._all_names(hours)]

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
        from broker_ctl.simulation.scenarios.catalogue import NAMES, is_daily

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
    plot: str | None
    moves: Path | None
    export_trace: Path | None
    is_plotless: bool
    is_forced: bool

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """From the values of `output_options`."""
        return cls(**{field.name: options[field.name] for field in fields(cls)})

    @property
    def is_json(self) -> bool:
        """Whether the output is JSON."""
        return self.output == Output.JSON

    @property
    def picture(self) -> Path | None:
        """The file of the plot."""
        return None if self.plot in (None, TERMINAL) else Path(str(self.plot))

    @property
    def is_drawn(self) -> bool:
        """Whether to plot below the table."""
        if self.is_json or self.is_plotless:
            return False
        return self.plot == TERMINAL or (self.plot is None and sys.stdout.isatty())

    def check(self, inputs: Sequence[Path]) -> None:
        """Check the options before the replay; ``inputs`` are not overwritten, even with --force.

        Raises:
            UsageError: options contradict each other, or a file cannot be written.
            ClickException: --plot needs the extra plot, which is not installed.
        """
        if self.is_plotless and self.plot is not None:
            raise click.UsageError("either --plot or --no-plot")
        if self.is_json and self.plot == TERMINAL:
            raise click.UsageError("--plot - requires --output table")
        if self.export_trace is not None and (self.moves is not None or self.plot is not None):
            raise click.UsageError("--export-trace replays nothing: without --plot and --moves")
        for option, path, suffixes in (
            ("--plot", self.picture, (".svg",)),
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
        if self.picture is not None:
            with needing("plot", "a picture"):
                import_module("broker_ctl.simulation.plots.plot_svg")


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
        metavar="FILE.svg|-",
        help=(
            "Output file for a plot (needs the extra plot); -: below the table, the default "
            "on a terminal."
        ),
    ),
    click.option("--no-plot", "is_plotless", is_flag=True, help="Do not plot below the table."),
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
