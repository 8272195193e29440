"""Inputs of the Simple manager's rules besides the view: quotas, and an operator's overrides.

Docs: pulsar-simple-manager. With another load manager nothing of it is read or written.
"""

import asyncio
import logging
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from broker_ctl.balancer.context.bundle_history import ReceivedReport
from broker_ctl.balancer.context.dependencies import LeaderRules
from broker_ctl.coordination.children_cache import PathChildrenCache
from broker_ctl.core.model.counting import batched
from broker_ctl.core.model.load import DEFAULT_QUOTA, BrokerLoad, BundleStats, ResourceQuota
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.rules.leader_rules import SimpleRules
from broker_ctl.core.strategies.simple import (
    Factors,
    QuotaBook,
    SimplePlacement,
    SimpleShedder,
    default_after,
    quota_sum,
    smooth_quota,
)
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.simple import decode_dynamic_setting

log = logging.getLogger(__name__)

_AT_ONCE: Final = 100


class SimpleManager:
    """Learns from the reports of one term."""

    def __init__(self, store: MetadataStore, *, rng: random.Random) -> None:
        self._settings = _DynamicSettings(store, rng=rng)
        self._quotas: dict[Bundle, ResourceQuota] = {}
        self._allocated: dict[str, ResourceQuota] = {}
        self._loads: dict[str, BrokerLoad] = {}
        self._received_s: dict[str, float] = {}
        self._default = DEFAULT_QUOTA
        self._factors = Factors()

    async def start(self) -> None:
        """Watch the operator's overrides."""
        await self._settings.start()

    async def close(self) -> None:
        """Stop the watch."""
        await self._settings.close()

    @property
    def book(self) -> QuotaBook:
        """A copy of the quotas for one plan, since reports arrive while it is made."""
        return QuotaBook(dict(self._allocated), self._default, self._factors)

    @property
    def quotas(self) -> Mapping[Bundle, ResourceQuota]:
        """Quotas by bundle."""
        return self._quotas

    @property
    def default(self) -> ResourceQuota:
        """The quota of bundles without their own."""
        return self._default

    def initial_load(
        self, quotas: Mapping[Bundle, ResourceQuota], default: ResourceQuota | None = None
    ) -> None:
        """Set the load written before this term, from which averages continue."""
        self._quotas.update(quotas)
        self._default = default or self._default

    async def add_report(self, report: ReceivedReport) -> None:
        """Learn from a report, a few bundles at a time."""
        load, broker_id = report.data.load, report.data.load.broker_id
        elapsed_s = report.received_s - self._received_s.get(broker_id, report.received_s)
        self._received_s[broker_id], self._loads[broker_id] = report.received_s, load
        self._learn(elapsed_s)
        sums: list[ResourceQuota] = []
        for some in batched(report.lines.items(), _AT_ONCE):
            for bundle, stats in some:
                self._quotas[bundle] = smooth_quota(
                    self._quotas.get(bundle, self._default), stats, self._factors, elapsed_s
                )
            sums.append(quota_sum(self._quotas[bundle] for bundle, _ in some))
            await asyncio.sleep(0)
        self._allocated[broker_id] = quota_sum(sums)

    def _learn(self, elapsed_s: float) -> None:
        """Update the factors and the default, in proportion to the time since the last report."""
        part_s = elapsed_s / len(self._loads)
        totals = [load.total for load in self._loads.values()]
        total = BundleStats.total_of(totals)
        count = sum(load.bundle_count for load in self._loads.values())
        usages = [load.usage for load in self._loads.values()]
        self._factors = self._factors.learn(total, usages, part_s)
        self._default = default_after(self._default, total, count, self._factors, part_s)

    def keep_only(self, brokers: Mapping[str, object], bundles: Mapping[Bundle, object]) -> None:
        """Remove all other brokers and bundles."""
        for kept in (self._allocated, self._loads, self._received_s):
            for gone in kept.keys() - brokers.keys():
                del kept[gone]
        for bundle in self._quotas.keys() - bundles.keys():
            del self._quotas[bundle]

    def adjusted(self, rules: LeaderRules) -> LeaderRules:
        """The rules with the learnt factors and the operator's overrides."""
        placement, shedding, splitting = rules.placement, rules.shedding, rules.splitting
        if isinstance(placement, SimplePlacement):
            simple = self._settings.over(placement.rules)
            placement = SimplePlacement(simple, _with_factors(self.book, simple))
            if simple.is_splitting is False:
                splitting = None
        if isinstance(shedding, SimpleShedder):
            shedding = SimpleShedder(self._settings.over(shedding.rules))
        return replace(rules, placement=placement, shedding=shedding, splitting=splitting)


class _DynamicSettings:
    """The nodes below /loadbalance/settings, watched during a term."""

    def __init__(self, store: MetadataStore, *, rng: random.Random) -> None:
        self._tree = PathChildrenCache(store, paths.SIMPLE_SETTINGS, _texts, rng=rng)
        self._logged: tuple[str, ...] = ()

    async def start(self) -> None:
        """Start the watch."""
        await self._tree.start()
        await self._tree.wait_synced()

    async def close(self) -> None:
        """Stop the watch."""
        await self._tree.close()

    def over(self, rules: SimpleRules) -> SimpleRules:
        """``rules`` with the operator's overrides; invalid ones are logged once and ignored."""
        texts = {key: text for node in self._tree.values.values() for key, text in node.items()}
        overridden, complaints = rules.under(texts)
        if complaints != self._logged:
            self._logged = complaints
            for complaint in complaints:
                log.warning("ignored an override in %s: %s", paths.SIMPLE_SETTINGS, complaint)
        return overridden


def _texts(node: Versioned) -> Mapping[str, str]:
    return decode_dynamic_setting(node.path, node.data)


def is_simple(rules: LeaderRules) -> bool:
    """Whether any of the Simple manager's rules is in use."""
    return isinstance(rules.shedding, SimpleShedder) or isinstance(rules.placement, SimplePlacement)


def _with_factors(book: QuotaBook, rules: SimpleRules) -> QuotaBook:
    learnt = book.factors
    factors = Factors(
        learnt.cpu_per_msg if rules.cpu_per_msg is None else rules.cpu_per_msg,
        learnt.memory_per_group_mib
        if rules.memory_per_group_mib is None
        else rules.memory_per_group_mib,
    )
    return replace(book, factors=factors)
