"""Dynamic configuration: overrides of settings at run time.

Docs: pulsar-paths, pulsar-admin-api, pulsar-configuration. All brokers of a cluster follow one
node, a map of texts by key. A text that cannot be used is logged and left out, the others hold.
"""

import logging
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from broker_ctl.broker.namespaces.policy_store import UPDATE_RULES
from broker_ctl.clock import Clock
from broker_ctl.coordination.replicated.node_cache import NodeCache
from broker_ctl.errors import SettingsError
from broker_ctl.settings.compat.deprecated import OLD_KEYS, renamed
from broker_ctl.settings.root import DECLARATIONS, Settings
from broker_ctl.settings.schema import Problem
from broker_ctl.settings.sources import with_dynamic
from broker_ctl.store import paths
from broker_ctl.store.caches.rules import CacheRules
from broker_ctl.store.caches.updates import Updates
from broker_ctl.store.caches.values import ValueCache
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.constraints import DynamicValues

log = logging.getLogger(__name__)

T = TypeVar("T")

DYNAMIC_KEYS: Final = tuple(
    key for key, declaration in DECLARATIONS.items() if declaration.setting.is_dynamic
)
MAX_TEXT_LENGTH: Final = 4096
# In place of a text under a key that is not ours: it may be a password.
HIDDEN: Final = "***"


def _decode(node: Versioned) -> DynamicValues:
    return DynamicValues.decode(node.path, node.data)


class DynamicConfiguration:
    """The settings of the start under the overrides of ``/admin/configuration``."""

    def __init__(
        self, store: MetadataStore, settings: Settings, *, clock: Clock, rng: random.Random
    ) -> None:
        self._start = settings
        self._current = settings
        self._problems: tuple[Problem, ...] = ()
        self._listeners: list[Callable[[Settings], None]] = []
        self._cache = NodeCache(store, paths.CONFIGURATION, _decode)
        # Never started: whoever changes something wants to see it at once.
        self._reader = ValueCache(store, (paths.CONFIGURATION,), _decode, clock, CacheRules())
        self._updates = Updates(
            store,
            self._reader,
            DynamicValues.encode,
            clock=clock,
            rng=rng,
            rules=UPDATE_RULES,
        )

    async def start(self) -> None:
        """Follow; returns once the overrides have been read."""
        self._cache.listen(self._changed)
        await self._cache.start()
        await self._cache.wait_synced()

    async def close(self) -> None:
        """Stop following; what was last known stays."""
        await self._cache.close()

    def current(self) -> Settings:
        """The effective settings."""
        return self._current

    def derive(self, build: Callable[[Settings], T]) -> Callable[[], T]:
        """Ask for what ``build`` makes of the settings; the same object until they change."""
        made: tuple[Settings, T] | None = None

        def now() -> T:
            nonlocal made
            if made is None or made[0] is not self._current:
                made = self._current, build(self._current)
            return made[1]

        return now

    def listen(self, listener: Callable[[Settings], None]) -> None:
        """Hear of each change of the effective settings; at once where there are overrides."""
        self._listeners.append(listener)
        if self._current != self._start:
            listener(self._current)

    @property
    def corrupt(self) -> int:
        """Reads that did not decode."""
        return self._cache.corrupt

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Overrides that are left out, and why."""
        return self._problems

    def effective(self) -> Mapping[str, str]:
        """The settings that hold, as texts; not those of security, and no path on this machine."""
        return {
            key: self._current.text(key)
            for key, declaration in DECLARATIONS.items()
            if declaration.subject != "security" and not isinstance(self._current.value(key), Path)
        }

    async def overrides(self) -> Mapping[str, str]:
        """The node as it stands now, with what is left out; texts under keys of others hidden."""
        found = await self._reader.get(paths.CONFIGURATION)
        texts = {} if found is None else found.texts
        return {
            key: text if key in DECLARATIONS or key in OLD_KEYS else HIDDEN
            for key, text in texts.items()
        }

    async def set(self, key: str, text: str, *, is_dry_run: bool = False) -> None:
        """Override a setting on all brokers, or only look whether that can be done.

        Raises:
            SettingsError: no setting of ours, not dynamic, or no value of it; together with the
                overrides that stand, too.
        """
        if not text or len(text) > MAX_TEXT_LENGTH:
            raise SettingsError(
                f"{key[:128]}: a value has 1 to {MAX_TEXT_LENGTH} characters; delete the override "
                "to go back to what the broker was started with",
            )

        def change(found: DynamicValues | None) -> DynamicValues:
            texts = {} if found is None else found.texts
            wanted = {**_others(texts, key), key: text}
            _, old_problems = with_dynamic(self._start, texts)
            _, problems = with_dynamic(self._start, wanted)
            # What was wrong before is not this caller's fault, unless it is the same key.
            new = [one for one in problems if one.key == key or one not in old_problems]
            if new:
                raise SettingsError("; ".join(map(str, new)))
            return DynamicValues(wanted)

        if is_dry_run:
            change(await self._reader.get(paths.CONFIGURATION))
            return
        await self._updates.read_modify_update_or_create(paths.CONFIGURATION, change)
        log.info("%s is overridden by %r for all brokers", key, text)
        if renamed(key) != key:
            log.warning("%s is deprecated; the key is called %s", key, renamed(key))

    async def delete(self, key: str, *, is_dry_run: bool = False) -> bool:
        """Take an override away, or only look; whether there was one.

        Raises:
            SettingsError: no dynamic setting, and no override either.
        """

        def change(found: DynamicValues | None) -> DynamicValues:
            texts = {} if found is None else found.texts
            rest = _others(texts, key)
            if rest == texts:
                raise _NothingToDelete(key)
            return DynamicValues(rest)

        try:
            if is_dry_run:
                change(await self._reader.get(paths.CONFIGURATION))
                return True
            await self._updates.read_modify_update_or_create(paths.CONFIGURATION, change)
        except _NothingToDelete:
            if renamed(key) not in DYNAMIC_KEYS:
                raise SettingsError(f"{key[:128]}: not a dynamic setting of broker-ctl") from None
            # Nothing was overridden: that is what was wanted.
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


def _others(texts: Mapping[str, str], key: str) -> dict[str, str]:
    """The overrides of other settings; a renamed setting counts as one under both names."""
    return {known: text for known, text in texts.items() if renamed(known) != renamed(key)}


class _NothingToDelete(Exception):
    """There is no such override."""
