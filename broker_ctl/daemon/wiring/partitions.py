"""Builds the parts of replicated partitions; there are none without a brokerId.

The partition controller and the balancer's leader are elected separately: they may be two brokers.
"""

from functools import partial
from typing import Final

from broker_ctl.api.http.dependencies import PartitionDependencies
from broker_ctl.broker.replicas.lifecycle import (
    ControlledShutdown,
    ReplicaAuthority,
    ReplicaDependencies,
    Replicas,
    ShutdownRules,
)
from broker_ctl.broker.services import BrokerServices
from broker_ctl.controller.controller import ControllerDependencies, PartitionController
from broker_ctl.controller.transport.http import http_call
from broker_ctl.coordination.election_node import ControllerRecords
from broker_ctl.coordination.membership.broker_ids import BrokerIds
from broker_ctl.coordination.membership.cluster import bound_leader
from broker_ctl.core.partitions.values import ControllerRules, LiveBroker
from broker_ctl.daemon.wiring.foundation import Foundation
from broker_ctl.daemon.wiring.history import PartitionHistory
from broker_ctl.instruments.declared import Instruments
from broker_ctl.peer_http import PeerHttp
from broker_ctl.settings.root import Settings
from broker_ctl.settings.subjects.broker import BrokerSettings
from broker_ctl.settings.subjects.partitions import StateChangeTransport
from broker_ctl.store import paths


class PartitionParts:
    """All parts of replicated partitions, wired and not yet started.

    Attributes:
        shutdown: None: leaderships stay until the controller notices that the broker is gone.
    """

    def __init__(
        self, base: Foundation, services: BrokerServices, http: PeerHttp, number: int
    ) -> None:
        settings, broker, own = base.settings, base.settings.broker, base.own_leader
        dataplane, tick_s = services.dataplane, settings.zookeeper.tick_time_s
        authority = ReplicaAuthority()
        base.watcher.listen_grants(authority.on_grant)
        self.plane: Final = base.environment.replica_plane(settings, dataplane, authority.current)
        address = broker.advertised_host, _process_port(broker)
        live = LiveBroker(number, 0, *address, own.broker_id, own.service_url, rack=broker.rack)
        self.replicas: Final = Replicas(
            ReplicaDependencies(
                store=base.metadata,
                ids=BrokerIds(base.control, live, base.deletions, base.clock, tick_s, rng=base.rng),
                plane=self.plane,
                authority=authority,
                instance_id=lambda: dataplane.instance_id,
                poll_s=settings.partitions.poll_s,
                lag_time_s=settings.partitions.lag_time_max_s,
                rng=base.rng,
            )
        )
        records = ControllerRecords(own, number, base.clock)
        self.election: Final = base.build_election(paths.CONTROLLER_ELECTION, records)
        self._controller: Final = partial(bound_leader, self.election, base.addresses)
        self.controller: Final = PartitionController(
            ControllerDependencies(
                store=base.control,
                broker_id=number,
                call=http_call(http),
                clock=base.clock,
                rules=services.configuration.derive(controller_rules),
                has_queues=settings.partitions.transport is StateChangeTransport.ZKQUEUE,
                record=PartitionHistory(services.history).record_transitions,
                instruments=base.instruments.controller,
                rng=base.rng,
            )
        )
        chosen, replicas = settings.partitions, self.replicas
        rules = ShutdownRules(
            chosen.controlled_shutdown_max_retries, chosen.controlled_shutdown_backoff_s
        )
        shutdown = ControlledShutdown(
            replicas.ids,
            http,
            rules,
            replicas=lambda: replicas.statistics().held,
            controller=self._controller,
        )
        self.shutdown: Final = shutdown if chosen.controlled_shutdown_enabled else None

    @property
    def dependencies(self) -> PartitionDependencies:
        """What the API needs; the controller's answers are valid only while it is elected."""
        controller, election = self.controller, self.election
        return PartitionDependencies(
            lambda: controller.admin if election.leadership is not None else None,
            self._controller,
        )


def controller_rules(settings: Settings) -> ControllerRules:
    """The rules of the controller."""
    partitions = settings.partitions
    return ControllerRules(
        is_unclean_allowed=partitions.is_unclean_allowed,
        min_isr=partitions.min_in_sync,
        acknowledge_s=partitions.acknowledge_timeout_s,
        max_queued=partitions.max_queued_instructions,
        is_rebalancing=partitions.auto_rebalance_enabled,
        imbalance_percent=partitions.imbalance_percent,
        imbalance_check_s=partitions.imbalance_check_interval_s,
    )


def bind_partitions(instruments: Instruments, partitions: PartitionParts | None) -> None:
    """Bind the instruments of partitions."""
    if partitions is None:
        return
    replicas, gauges = partitions.replicas, instruments.replicas
    gauges.held.bind(lambda: replicas.statistics().held)
    gauges.led.bind(replicas.count_led)
    gauges.failed.bind(lambda: replicas.statistics().failed)
    gauges.isr_expands.bind(lambda: replicas.statistics().isr_expanded)
    gauges.isr_shrinks.bind(lambda: replicas.statistics().isr_shrunk)
    gauges.isr_refused.bind(lambda: replicas.statistics().isr_refused)
    gauges.queued.bind(lambda: replicas.statistics().queued_applied)
    gauges.corrupt.bind(lambda: replicas.statistics().queued_corrupt)
    gauges.fenced.bind(lambda: replicas.statistics().stale)
    gauges.throttle.bind(lambda: replicas.throttle.rate or 0)
    gauges.epoch.bind(lambda: replicas.ids.epoch)


def _process_port(broker: BrokerSettings) -> int:
    port = broker.broker_service_port or broker.broker_service_port_tls
    assert port is not None, "a numbered broker without a port is refused"
    return port
