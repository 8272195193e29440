"""All examinations, in the order in which an operator would go through them."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.daemon.doctor.ensemble import examine_ensembles
from broker_ctl.daemon.doctor.machine import Finding, FindingLevel, examine_machine, examine_ports
from broker_ctl.daemon.lifecycle.rehearsal import rehearse
from broker_ctl.daemon.secrets import SecretState, check_secrets
from broker_ctl.settings.schema import Problem
from broker_ctl.settings.sources import Reading
from broker_ctl.settings.startable import start_problems

# Examines settings, and the files that they name.


_CHECK: Final = "configuration"
_FILES: Final = "certificates and secrets"
_CORRECT: Final = "correct it, then: broker-ctl config check"
_LEVELS: Final = {
    SecretState.OK: FindingLevel.OK,
    SecretState.WARNING: FindingLevel.WARNING,
    SecretState.ERROR: FindingLevel.ERROR,
}


def examine_configuration(reading: Reading) -> list[Finding]:
    """Whether a daemon would start with these settings; has its own event loop."""
    if reading.problems:
        return [_problem(each, FindingLevel.ERROR) for each in reading.problems]
    rehearsal = rehearse(reading.settings)
    errors = (*start_problems(reading), *rehearsal.problems)
    findings = [
        *(_problem(each, FindingLevel.ERROR) for each in dict.fromkeys(errors)),
        *(_problem(each, FindingLevel.WARNING) for each in rehearsal.warnings),
        *(
            Finding(
                _CHECK,
                entry.key,
                FindingLevel.WARNING,
                f"{entry.origin}: unknown to broker-ctl and Pulsar",
                "look for a typing error; keys without effect: broker-ctl config check",
            )
            for entry in reading.unknown
        ),
    ]
    return findings or [Finding(_CHECK, "", FindingLevel.OK, "a daemon would start with it")]


def examine_files(reading: Reading, clock: Clock, warn_days: float) -> list[Finding]:
    """The files of certificates, keys, tokens and passwords."""
    with _quiet():
        files = check_secrets(reading.settings, clock, warn_days)
    findings: list[Finding] = []
    for file in files:
        texts = "; ".join([*file.errors, *file.warnings])
        days = file.days_left(clock.wall_ms() / 1000)
        left = "" if days is None else f", {days:.0f} days left"
        advice = "" if file.state is SecretState.OK else "see broker-ctl secrets check"
        found = texts or f"mode {file.mode}{left}"
        findings.append(
            Finding(_FILES, f"{file.key}={file.path}", _LEVELS[file.state], found, advice)
        )
    return findings or [Finding(_FILES, "", FindingLevel.OK, "the configuration names none")]


def _problem(problem: Problem, level: FindingLevel) -> Finding:
    found = ": ".join(part for part in (problem.origin, problem.message) if part)
    return Finding(_CHECK, problem.key, level, found, _CORRECT)


@contextmanager
def _quiet() -> Iterator[None]:
    """Warnings of readers are findings, and not logged."""
    logger = logging.getLogger("broker_ctl")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


# All examinations, in the order in which an operator would go through them.


@dataclass(frozen=True, slots=True)
class Examination:
    """How to examine.

    Attributes:
        limit_s: of each question to a server.
        warn_days: days left to a certificate or token below which it is a warning.
        is_offline: whether to leave out what needs connections.
    """

    limit_s: float
    warn_days: float
    is_offline: bool = False


def examine(reading: Reading, clock: Clock, options: Examination) -> list[Finding]:
    """Examine this machine for a daemon with these settings; writes nothing anywhere."""
    settings = reading.settings
    findings = [
        *examine_configuration(reading),
        *examine_files(reading, clock, options.warn_days),
        *examine_machine(settings),
        *examine_ports(settings),
    ]
    if options.is_offline:
        return [*findings, Finding("zookeeper", "", FindingLevel.SKIPPED, "left out: --offline")]
    return findings + asyncio.run(examine_ensembles(settings, clock, options.limit_s))
