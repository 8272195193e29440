"""Dynamic configuration: overrides of settings at run time.

Docs: pulsar-paths, pulsar-admin-api, pulsar-configuration. All brokers of a cluster watch one node,
a map of texts by key. An unusable text is logged and ignored; the others take effect.
"""

import logging
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from broker_ctl.broker.namespaces.policy_store import UPDATE_RULES
from broker_ctl.clock import Clock
from broker_ctl.coordination.directives import NodeCache
from broker_ctl.errors import SettingsError
from broker_ctl.settings.pulsar_keys import OLD_KEYS
from broker_ctl.settings.root import DECLARATIONS, Settings
from broker_ctl.settings.schema import Problem
from broker_ctl.settings.sources import with_dynamic
from broker_ctl.store import paths
from broker_ctl.store.cached_values import Updates, ValueCache
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.constraints import DynamicValues
from broker_ctl.store.watched_cache import CacheRules

log = logging.getLogger(__name__)

T = TypeVar("T")

DYNAMIC_KEYS: Final = tuple(
    key for key, declaration in DECLARATIONS.items() if declaration.setting.is_dynamic
)
MAX_TEXT_LENGTH: Final = 4096
# Shown for keys that broker-ctl does not know: the value may be a password.
HIDDEN: Final = "***"


def _decode(node: Versioned) -> DynamicValues:
    return DynamicValues.decode(node.path, node.data)


class DynamicConfiguration:
    """The settings of the start, with the overrides of ``/admin/configuration``."""

    def __init__(
        self, store: MetadataStore, settings: Settings, *, clock: Clock, rng: random.Random
    ) -> None:
        self._start = settings
        self._current = settings
        self._problems: tuple[Problem, ...] = ()
        self._listeners: list[Callable[[Settings], None]] = []
        self._cache = NodeCache(store, paths.CONFIGURATION, _decode, rng=rng)
        # Never started: operators expect to see their change at once.
        self._reader = ValueCache(
            store, (paths.CONFIGURATION,), _decode, clock, CacheRules(), rng=rng
        )
        self._updates = Updates(
            store,
            self._reader,
            DynamicValues.encode,
            clock=clock,
            rng=rng,
            rules=UPDATE_RULES,
        )

    async def start(self) -> None:
        """Watch the node; returns once the overrides have been read."""
        self._cache.listen(self._changed)
        await self._cache.start()
        await self._cache.wait_synced()

    async def close(self) -> None:
        """Stop the watch; the last known overrides stay."""
        await self._cache.close()

    def current(self) -> Settings:
        """The effective settings."""
        return self._current

    def derive(self, build: Callable[[Settings], T]) -> Callable[[], T]:
        """A function that returns ``build(settings)``, cached until the settings change."""
        made: tuple[Settings, T] | None = None

        def now() -> T:
            nonlocal made
            if made is None or made[0] is not self._current:
                made = self._current, build(self._current)
            return made[1]

        return now

    def listen(self, listener: Callable[[Settings], None]) -> None:
        """Call the listener at each change of the settings, and now if there are overrides."""
        self._listeners.append(listener)
        if self._current != self._start:
            listener(self._current)

    @property
    def corrupt(self) -> int:
        """Number of reads that did not decode."""
        return self._cache.corrupt

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Overrides that are ignored, with the reason."""
        return self._problems

    def effective(self) -> Mapping[str, str]:
        """The effective settings as texts, without those of security and paths of this machine."""
        return {
            key: self._current.text(key)
            for key, declaration in DECLARATIONS.items()
            if declaration.subject != "security" and not isinstance(self._current.value(key), Path)
        }

    async def overrides(self) -> Mapping[str, str]:
        """The stored overrides, ignored ones included; texts of unknown keys are hidden."""
        found = await self._reader.get(paths.CONFIGURATION)
        texts = {} if found is None else found.texts
        return {
            key: text if key in DECLARATIONS or key in OLD_KEYS else HIDDEN
            for key, text in texts.items()
        }

    async def set(self, key: str, text: str, *, is_dry_run: bool = False) -> None:
        """Override a setting on all brokers; a dry run only checks that this is possible.

        Raises:
            SettingsError: the key is unknown or not dynamic, or the value is not valid, by itself
                or together with the other overrides.
        """
        if not text or len(text) > MAX_TEXT_LENGTH:
            raise SettingsError(
                f"{key[:128]}: a value has 1 to {MAX_TEXT_LENGTH} characters; delete the override "
                "to go back to what the broker was started with",
            )

        def change(found: DynamicValues | None) -> DynamicValues:
            texts = {} if found is None else found.texts
            wanted = {**texts, key: text}
            _, old_problems = with_dynamic(self._start, texts)
            _, problems = with_dynamic(self._start, wanted)
            # Problems that existed before are not the caller's, unless they are of the same key.
            new = [one for one in problems if one.key == key or one not in old_problems]
            if new:
                raise SettingsError("; ".join(map(str, new)))
            return DynamicValues(wanted)

        if is_dry_run:
            change(await self._reader.get(paths.CONFIGURATION))
            return
        await self._updates.read_modify_update_or_create(paths.CONFIGURATION, change)
        log.info("%s is overridden by %r for all brokers", key, text)

    async def delete(self, key: str, *, is_dry_run: bool = False) -> bool:
        """Remove an override; returns whether there was one. A dry run only checks.

        Raises:
            SettingsError: it is neither a dynamic setting nor an override.
        """

        def change(found: DynamicValues | None) -> DynamicValues:
            texts = {} if found is None else found.texts
            if key not in texts:
                raise _NothingToDelete(key)
            return DynamicValues({known: text for known, text in texts.items() if known != key})

        try:
            if is_dry_run:
                change(await self._reader.get(paths.CONFIGURATION))
                return True
            await self._updates.read_modify_update_or_create(paths.CONFIGURATION, change)
        except _NothingToDelete:
            if key not in DYNAMIC_KEYS:
                raise SettingsError(f"{key[:128]}: not a dynamic setting of broker-ctl") from None
            # There was no override, so the goal is reached.
            return False
        log.info("the override of %s was removed", key)
        return True

    def _changed(self) -> None:
        found = self._cache.values.get(paths.CONFIGURATION)
        settings, problems = with_dynamic(self._start, {} if found is None else found.texts)
        for problem in problems:
            if problem not in self._problems:
                log.warning("ignored in %s: %s", paths.CONFIGURATION, problem)
        self._problems = problems
        if settings == self._current:
            return
        self._current = settings
        log.info("the overrides in %s have changed", paths.CONFIGURATION)
        for listener in tuple(self._listeners):
            listener(settings)


class _NothingToDelete(Exception):
    """There is no such override."""
