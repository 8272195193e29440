"""All examinations, in the order in which an operator would go through them."""

import asyncio
from dataclasses import dataclass

from broker_ctl.clock import Clock
from broker_ctl.daemon.doctor.configuration import examine_configuration, examine_files
from broker_ctl.daemon.doctor.ensemble import examine_ensembles
from broker_ctl.daemon.doctor.findings import Finding, Level
from broker_ctl.daemon.doctor.machine import examine_machine
from broker_ctl.daemon.doctor.ports import examine_ports
from broker_ctl.settings.sources import Reading


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
        return [*findings, Finding("zookeeper", "", Level.SKIPPED, "left out: --offline")]
    return findings + asyncio.run(examine_ensembles(settings, clock, options.limit_s))
