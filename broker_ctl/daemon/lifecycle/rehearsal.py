"""A dry run of a start: builds the parts of a daemon, and connects to nothing.

Checks that depend on other processes are left for the start: whether ZooKeeper and the broker
process answer, whether ports are free, and whether a broker process declares that its storage
rejects stale tokens.
"""

import asyncio
import logging
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from broker_ctl.clock import SystemClock
from broker_ctl.daemon.wiring.broker import Assembly
from broker_ctl.daemon.wiring.dataplanes import build_dataplane, require_safe_authority
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.daemon.wiring.part_rules import api_rules
from broker_ctl.daemon.wiring.security import build_authentication
from broker_ctl.daemon.wiring.stores import OwnStore, open_stores
from broker_ctl.daemon.wiring.tls import cluster_context, peer_context
from broker_ctl.errors import SettingsError, StartError
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.products import Product, load
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.conditions import BY_ADMIN_API
from broker_ctl.settings.contradictions import lacks_store
from broker_ctl.settings.effect import is_used
from broker_ctl.settings.root import DECLARATIONS, Settings
from broker_ctl.settings.schema import Problem
from broker_ctl.settings.subjects.dataplane import DataPlaneKind
from broker_ctl.store.interface import NO_SESSION

# Directories that a running daemon writes to; an unwritable one does not prevent a start.
_DIRECTORIES = ("loadHistoryDirectory", "sessionDirectory", "simulatedLogDirectory")


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The result of a rehearsal.

    Attributes:
        problems: each of them would prevent the start.
        warnings: findings that would not.
    """

    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


def rehearse(settings: Settings) -> Rehearsal:
    """Build the parts of a daemon, and discard them."""
    return asyncio.run(_rehearse(settings))


async def _rehearse(settings: Settings) -> Rehearsal:
    with _warned() as warned:
        refused = _refused(settings, _builders(settings))
        if not refused and not lacks_store(settings):
            # All parts once more, wired together.
            refused = _refused(settings, [lambda: _whole(settings)])
    warnings = [_problem(settings, text) for text in dict.fromkeys(warned)]
    return Rehearsal(tuple(refused), (*warnings, *_unwritable(settings)))


def _builders(settings: Settings) -> Sequence[Callable[[], object]]:
    """Build the parts one by one, so that all faults are found at once."""
    rng = random.SystemRandom()
    shared: list[Callable[[], object]] = [
        lambda: api_rules(
            settings, build_authentication(settings, SystemClock(), Reloader()), Reloader()
        ),
    ]
    if not lacks_store(settings):
        environment = _RehearsalEnvironment(SystemClock(), rng)
        shared.insert(0, lambda: environment.open_stores(settings, StoreInstruments()))
    if settings.dataplane.kind is DataPlaneKind.PULSAR:
        return [*shared, lambda: cluster_context(settings)]
    return [
        *shared,
        lambda: peer_context(settings),
        lambda: _require_dataplane(settings, rng),
    ]


def _require_dataplane(settings: Settings, rng: random.Random) -> None:
    dataplane = build_dataplane(settings, SystemClock(), rng, Reloader())
    if settings.dataplane.kind is DataPlaneKind.SIMULATED:
        require_safe_authority(settings, dataplane)


def _whole(settings: Settings) -> object:
    environment = _RehearsalEnvironment(SystemClock(), random.SystemRandom())
    if settings.dataplane.kind is DataPlaneKind.PULSAR:
        return load(Product.ATTACHED_DAEMON).Attached(settings, environment)
    return Assembly(settings, environment)


class _RehearsalEnvironment(Environment):
    """The environment of a process, without taking up a kept session."""

    def open_stores(
        self, settings: Settings, instruments: StoreInstruments
    ) -> tuple[OwnStore, OwnStore]:
        """Stores that are not connected and have no session."""
        if BY_ADMIN_API.holds(settings):
            return super().open_stores(settings, instruments)
        return open_stores(settings, self.rng, instruments, NO_SESSION, self.reloader)


def _refused(settings: Settings, builders: Sequence[Callable[[], object]]) -> list[Problem]:
    refused: list[Problem] = []
    for build in builders:
        try:
            build()
        except (StartError, SettingsError) as error:
            refused.append(_problem(settings, str(error)))
    return refused


def _problem(settings: Settings, text: str) -> Problem:
    """A problem with the origin of the key at the start of the text."""
    for key in DECLARATIONS:
        value = settings.text(key)
        if text.startswith(prefix := f"{key}={value}: "):
            return Problem(settings.origin(key), key, value, text.removeprefix(prefix))
        if text.startswith((f"{key}: ", f"{key}, ", f"{key}=")):
            return Problem(settings.origin(key), "", "", text)
    return Problem("", "", "", text)


@contextmanager
def _warned() -> Iterator[list[str]]:
    """Collect what would be logged as warnings."""
    logger, lines = logging.getLogger("broker_ctl"), list[str]()

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    keeper, was_propagating = Keeper(logging.WARNING), logger.propagate
    logger.addHandler(keeper)
    logger.propagate = False
    try:
        yield lines
    finally:
        logger.propagate = was_propagating
        logger.removeHandler(keeper)


def _unwritable(settings: Settings) -> Iterator[Problem]:
    for key in _DIRECTORIES:
        directory = settings.value(key)
        if not isinstance(directory, Path) or not is_used(settings, key):
            continue
        try:
            _try_to_write(directory)
        except OSError as error:
            message = f"cannot be written to: {error.strerror or error}"
            yield Problem(settings.origin(key), key, settings.text(key), message)


def _try_to_write(directory: Path) -> None:
    """Write and delete a file; a missing directory is not created, its parent is tried instead."""
    ancestors = (directory, *directory.absolute().parents)
    there = next(each for each in ancestors if each.exists())
    with tempfile.TemporaryDirectory(prefix=".broker-ctl-", dir=there):
        pass
