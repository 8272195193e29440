"""Options and progress of Spark jobs."""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec

import click

from broker_ctl.cli.runtime.output import Output, output_option
from broker_ctl.cli.runtime.verbs import needing
from broker_ctl.pipeline.settings import Format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from broker_ctl.pipeline.settings import PipelineSettings

P = ParamSpec("P")

_INTERRUPTED: Final = 130
# The parameters of `engine_options`.
_OPTIONS: Final = ("master", "conf", "config", "form", "log", "output")


@dataclass(frozen=True, slots=True)
class Engine:
    """The options that all pipeline commands have.

    Attributes:
        master: None: that of the settings.
        conf: Spark settings by key.
        log: file for the log of Spark.
        format: of the tables of a history.
    """

    settings: "PipelineSettings"
    format: Format
    master: str | None
    conf: dict[str, str]
    log: Path | None
    output: Output

    @property
    def is_json(self) -> bool:
        """Whether the output is JSON."""
        return self.output is Output.JSON

    def location(self, tables: str) -> str:
        """Where the tables of a history are, with their format."""
        from broker_ctl.pipeline.location import write_location

        return write_location(self.format, tables)

    @contextmanager
    def running(self) -> "Iterator[SparkSession]":
        """A Spark session for the block.

        Raises:
            ClickException: PySpark is not installed.
            PipelineError: Spark does not start.
        """
        with needing("pipeline", "the pipeline"):
            from broker_ctl.pipeline.location import settings_for
            from broker_ctl.pipeline.session import session
        master = self.master or self.settings.master
        try:
            conf = {**self.conf, **settings_for(self.format, self.conf)}
            with session(master, conf, os.environ, self.log) as spark:
                yield spark
        except KeyboardInterrupt:
            raise SystemExit(_INTERRUPTED) from None


def engine_options(command: Callable[Concatenate[Engine, P], None]) -> Callable[..., None]:
    """Add the options of pipeline commands; the command gets an `Engine`."""

    @click.option(
        "--master", metavar="URL", help="Spark master: local[2], spark://HOST:PORT or yarn."
    )
    @click.option(
        "--conf",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_read_conf,
        help="Spark setting, such as spark.driver.memory=4g; repeatable.",
    )
    @click.option(
        "--config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Configuration file (pipeline.conf).",
    )
    @click.option(
        "--format",
        "form",
        type=click.Choice([each.value for each in Format]),
        help="Format of the tables of the history.  [default: tablesFormat, which is parquet]",
    )
    @click.option(
        "--log",
        type=click.Path(dir_okay=False, path_type=Path),
        help="File for the log of Spark.",
    )
    @output_option()
    @functools.wraps(command)
    def with_engine(*args: Any, **options: Any) -> None:
        own = {name: options.pop(name) for name in _OPTIONS}
        command(_engine_of(**own), *args, **options)

    return with_engine


def _engine_of(
    *,
    master: str | None,
    conf: dict[str, str],
    config: Path | None,
    form: str | None,
    log: Path | None,
    output: str,
) -> Engine:
    from broker_ctl.pipeline.settings import Loaded, load

    loaded = Loaded() if config is None else load(config)
    return Engine(
        settings=loaded.settings,
        format=loaded.settings.tables_format if form is None else Format(form),
        master=master,
        conf={**loaded.spark, **conf},
        log=log,
        output=Output(output),
    )


def _read_conf(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            raise click.BadParameter(f"{text!r}; KEY=VALUE, and KEY begins with spark.")
        pairs[key] = value
    return pairs


@contextmanager
def progress_bar(engine: Engine, sentence: str) -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar on stderr, and the function that updates it.

    Its arguments are a description, the number done, and the total: 0 if unknown.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns: Any = (BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=engine.is_json, transient=True) as progress:
        bar = progress.add_task(sentence, total=None)

        def update(words: str, done: int, total: int) -> None:
            progress.update(bar, description=words, completed=done, total=total or None)

        yield update


@contextmanager
def counting_bar(engine: Engine, sentence: str) -> Iterator[Callable[[str, int], None]]:
    """As `progress_bar`, of one thing after the other; arguments are its name and their number."""
    with progress_bar(engine, sentence) as update:
        done = 0

        def count(name: str, total: int) -> None:
            nonlocal done
            done += 1
            update(name, done, total)

        yield count
