"""Candidates of a back-test: policies by name, and a leader under combinations of settings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Final, NamedTuple

from broker_ctl.cli.simulate.replays import SETTINGS, contestant_of
from broker_ctl.core.planning.cycle import CycleRules
from broker_ctl.errors import SettingsError
from broker_ctl.pipeline.backtest.candidates import Candidate
from broker_ctl.pipeline.backtest.sweeps import Dimension, Point
from broker_ctl.settings.intake import take_in
from broker_ctl.settings.root import DECLARATIONS
from broker_ctl.settings.schema import Entry
from broker_ctl.simulation.replay.baselines import POLICIES, Baseline

_ORIGIN: Final = "--set"


class Config(NamedTuple):
    """Sources of the leader's settings without --set."""

    file: Path | None
    environment: Mapping[str, str]


class Selection(NamedTuple):
    """The candidates.

    Attributes:
        contradictory: number of combinations that no daemon accepts.
        reason: why the first of them is not accepted.
    """

    candidates: list[Candidate]
    contradictory: int = 0
    reason: str = ""


def check_dimensions(dimensions: Sequence[Dimension]) -> None:
    """Check the keys and values.

    Raises:
        SettingsError: a key is unknown, or a value invalid.
    """
    problems = []
    for each in dimensions:
        intake = take_in((Entry(each.key, value, _ORIGIN) for value in each.values), DECLARATIONS)
        if intake.unknown or intake.unused:
            problems.append(f"{_ORIGIN}: {each.key}: not a setting that a daemon here uses")
        for value in each.values:
            one = take_in([Entry(each.key, value, _ORIGIN)], DECLARATIONS)
            problems += [str(problem) for problem in one.problems]
    if problems:
        raise SettingsError("\n".join(dict.fromkeys(problems)))


def select_candidates(
    policies: Sequence[str],
    config: Config,
    dimensions: Sequence[Dimension],
    points: Sequence[Point],
) -> Selection:
    """Candidates in the order of the policies; the settings as they are come before the points.

    Args:
        policies: names in `POLICIES`, or `SETTINGS`.
        config: settings of the leader for `SETTINGS`.
        dimensions: of the points.
        points: combinations of settings that override ``config``.

    Raises:
        SettingsError: a setting is invalid, no replay depends on a key, or no point is accepted by
            a daemon.
    """
    candidates: list[Candidate] = []
    reasons: list[str] = []
    for policy in dict.fromkeys(policies):
        if policy != SETTINGS:
            candidates.append(Candidate(policy, "", POLICIES[policy]()))
            continue
        usual = _leader(config, ())
        _check_effects(usual, config, dimensions)
        candidates.append(Candidate(SETTINGS, "", usual))
        for point in points:
            try:
                found = _leader(config, point)
            except SettingsError as error:
                # Each value is valid, but not their combination.
                reasons.append(str(error))
            else:
                candidates.append(Candidate(SETTINGS, " ".join(point), found))
        if points and len(reasons) == len(points):
            raise SettingsError(reasons[0])
    return Selection(candidates, len(reasons), next(iter(reasons), ""))


def _leader(config: Config, point: Point) -> Baseline:
    """A leader with only the rules that a replay uses."""
    found = contestant_of(SETTINGS, config.file, config.environment, point)
    rules = {field.name: getattr(found.rules, field.name) for field in fields(CycleRules)}
    return replace(found, rules=CycleRules(**rules))


def _check_effects(usual: Baseline, config: Config, dimensions: Sequence[Dimension]) -> None:
    for each in dimensions:
        if all(found == usual for found in _leaders_per_value(config, each)):
            values = ", ".join(each.values)
            raise SettingsError(
                f"{_ORIGIN}: {each.key}: no replay depends on it, or {values} is already in effect"
            )


def _leaders_per_value(config: Config, dimension: Dimension) -> Iterator[Baseline | None]:
    """The leader with each value of one key alone; None if the value contradicts other settings."""
    for value in dimension.values:
        try:
            yield _leader(config, (f"{dimension.key}={value}",))
        except SettingsError:
            yield None
