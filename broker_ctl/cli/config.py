"""``broker-ctl config``: write and check a broker.conf, and show the effective settings."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.runtime.output import echo_json, output_option, print_table
from broker_ctl.cli.runtime.target import set_option
from broker_ctl.cli.runtime.verbs import VerbGroup

if TYPE_CHECKING:
    from broker_ctl.settings.effect import WithoutEffect
    from broker_ctl.settings.root import Settings
    from broker_ctl.settings.schema import Entry, Problem
    from broker_ctl.settings.sources import Reading

_FILE: Final = click.Path(dir_okay=False, path_type=Path)
# \b keeps click from filling the lines.
_GROUP_EXAMPLES: Final = """\b
Examples:
  broker-ctl config init --set clusterName=prod --set metadataStoreUrl=zk:zk-1:2181/prod
  broker-ctl config check broker.conf
  broker-ctl config show broker.conf --explain
  broker-ctl config show --output conf > broker.conf
"""
_INIT_EXAMPLES: Final = """\b
Examples:
  broker-ctl config init
  broker-ctl config init /etc/broker-ctl/broker.conf --set clusterName=prod
  broker-ctl config init --dry-run
"""
# It may name files with secrets.
_INIT_MODE: Final = 0o640
_CHECK_EXAMPLES: Final = """\b
Examples:
  broker-ctl config check broker.conf
  broker-ctl config check broker.conf --set metadataStoreUrl=zk:localhost:2181
  broker-ctl config check broker.conf --output json
"""
_SHOW_EXAMPLES: Final = """\b
Examples:
  broker-ctl config show
  broker-ctl config show broker.conf --set dryRun=true --explain
  broker-ctl config show broker.conf --output json
  broker-ctl config show --output conf > broker.conf
"""
_overrides = set_option()


@click.group(cls=VerbGroup, epilog=_GROUP_EXAMPLES)
def command() -> None:
    """Write and check a broker.conf, and show the effective settings.

    Sources, each overriding the previous one: defaults, the file, the environment
    (BROKER_CTL_ and the key), --set.
    """


@command.command(epilog=_INIT_EXAMPLES)
@click.argument("file", type=_FILE, default=Path("broker.conf"), required=False)
@_overrides
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--dry-run", is_flag=True, help="Print the file; write nothing.")
def init(file: Path, overrides: tuple[str, ...], force: bool, dry_run: bool) -> None:
    """Write a broker.conf with every key explained; without FILE, broker.conf.

    Keys of --set and of the environment have their values. All others are commented out, with
    their defaults: they follow the release.
    """
    from broker_ctl.cli.runtime.output import atomic_output, check_new, create_file
    from broker_ctl.settings.effect import render_overrides
    from broker_ctl.settings.sources import load

    text = render_overrides(load(None, os.environ, overrides))
    if dry_run:
        click.echo(text, nl=False)
        return
    check_new(file, "FILE", is_forced=force)
    with atomic_output(file) as beside:
        create_file(beside, text.encode(), _INIT_MODE)
    click.echo(f"wrote {file}; next: broker-ctl config check {file}")


@command.command(epilog=_CHECK_EXAMPLES)
@click.argument("file", type=_FILE)
@_overrides
@output_option()
def check(file: Path, overrides: tuple[str, ...], output: str) -> None:
    """Check a broker.conf; exit code 0 only if a daemon would start with it.

    Lists errors with file and line, warnings, then keys without effect: unused under the other
    settings, keys of Pulsar that broker-ctl does not use, and unknown keys. Files are read as at
    start; no connection is made.
    """
    from broker_ctl.daemon.lifecycle.rehearsal import rehearse
    from broker_ctl.settings.effect import without_effect
    from broker_ctl.settings.root import DECLARATIONS
    from broker_ctl.settings.sources import read
    from broker_ctl.settings.startable import start_problems

    reading = read(file, os.environ, overrides)
    problems = list(reading.problems)
    warnings: tuple[Problem, ...] = ()
    if not problems:
        problems = list(start_problems(reading))
        rehearsal = rehearse(reading.settings)
        problems += rehearsal.problems
        warnings = rehearsal.warnings
    # A default that is written down changes nothing, and is nothing to correct.
    ineffective = [
        one
        for one in without_effect(reading.settings)
        if reading.settings.value(one.key) != DECLARATIONS[one.key].default
    ]
    if output == "json":
        echo_json(
            {
                "ok": not problems,
                "problems": [_problem_row(problem) for problem in problems],
                "warnings": [_problem_row(warning) for warning in warnings],
                "without_effect": [_ineffective_row(one) for one in ineffective],
                "unused": [_entry_row(entry) for entry in reading.unused],
                "unknown": [_entry_row(entry) for entry in reading.unknown],
            }
        )
    else:
        _print_check(problems, warnings, ineffective, reading)
    if problems:
        raise click.exceptions.Exit(1)


@command.command(epilog=_SHOW_EXAMPLES)
@click.argument("file", type=_FILE, required=False)
@_overrides
@click.option(
    "--explain",
    is_flag=True,
    help="Include the description and the allowed values of each setting.",
)
@output_option(further=["conf"])
def show(file: Path | None, overrides: tuple[str, ...], explain: bool, output: str) -> None:
    """Show the effective settings and the source of each.

    --output conf writes a broker.conf; with --explain, one that describes each key.
    """
    from broker_ctl.settings.effect import render, render_plain
    from broker_ctl.settings.sources import load

    settings = load(file, os.environ, overrides)
    if output == "json":
        echo_json(_setting_rows(settings, explain))
    elif output == "conf":
        click.echo(render(settings) if explain else render_plain(settings), nl=False)
    else:
        rows = _setting_rows(settings, explain)
        print_table("settings", list(rows[0]), [row.values() for row in rows])


def _setting_rows(settings: "Settings", explain: bool) -> list[dict[str, str]]:
    from broker_ctl.settings.root import DECLARATIONS

    rows: list[dict[str, str]] = []
    for key, declaration in DECLARATIONS.items():
        row = {"key": key, "value": settings.text(key), "origin": settings.origin(key)}
        if explain:
            row |= {
                "unit": declaration.unit,
                "allowed": declaration.kind.allowed,
                "dynamic": "yes" if declaration.setting.is_dynamic else "no",
                "meaning": declaration.setting.sentence,
            }
        rows.append(row)
    return rows


def _problem_row(problem: "Problem") -> dict[str, str]:
    return {
        "origin": problem.origin,
        "key": problem.key,
        "value": problem.value,
        "message": problem.message,
    }


def _entry_row(entry: "Entry") -> dict[str, str]:
    # Without the value: that of an unknown key may be a password.
    return {"origin": entry.origin, "key": entry.key}


def _ineffective_row(one: "WithoutEffect") -> dict[str, Any]:
    return {
        "origin": one.origin,
        "key": one.key,
        "message": one.why,
        "instead": list(one.instead),
    }


def _print_check(
    problems: Sequence["Problem"],
    warnings: Sequence["Problem"],
    ineffective: Sequence["WithoutEffect"],
    reading: "Reading",
) -> None:
    for problem in problems:
        click.echo(f"error: {problem}")
    for warning in warnings:
        click.echo(f"warning: {warning}")
    if ineffective:
        whys = [(one.key, one.origin, _why(one)) for one in ineffective]
        print_table(f"without effect: {len(ineffective)}", ["key", "origin", "why"], whys)
    for title, entries in (
        ("Pulsar's, without effect here", reading.unused),
        ("unknown, without effect", reading.unknown),
    ):
        if entries:
            rows = [(entry.key, entry.origin) for entry in entries]
            print_table(f"{title}: {len(rows)}", ["key", "origin"], rows)
    click.echo(f"{len(problems)} error(s)" if problems else "ok")


def _why(one: "WithoutEffect") -> str:
    if not one.instead:
        return one.why
    return f"{one.why}. Strategy balance uses {', '.join(one.instead)}"
