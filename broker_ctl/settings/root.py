"""All settings as one frozen value: ``settings.metadata.session_timeout_ms``."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, get_type_hints

from broker_ctl.settings.declarations import Declaration, declared
from broker_ctl.settings.schema import DEFAULT_ORIGIN
from broker_ctl.settings.subjects.balancing import BalancingSettings, SlowBrokerSettings
from broker_ctl.settings.subjects.broker import BrokerSettings
from broker_ctl.settings.subjects.dataplane import DataPlaneSettings
from broker_ctl.settings.subjects.history import HistorySettings
from broker_ctl.settings.subjects.http import ClientLimitSettings, HttpPortSettings, HttpSettings
from broker_ctl.settings.subjects.load_report import LoadReportSettings
from broker_ctl.settings.subjects.log import AuditSettings, LogSettings, TracingSettings
from broker_ctl.settings.subjects.metadata import MetadataSettings
from broker_ctl.settings.subjects.partitions import PartitionSettings
from broker_ctl.settings.subjects.placement import PlacementSettings
from broker_ctl.settings.subjects.planner import PlannerSettings
from broker_ctl.settings.subjects.pulsar import PulsarSettings
from broker_ctl.settings.subjects.security import SecuritySettings
from broker_ctl.settings.subjects.session import SessionSettings
from broker_ctl.settings.subjects.shedding import ShedderSettings, SheddingSettings
from broker_ctl.settings.subjects.splitting import SplittingSettings
from broker_ctl.settings.subjects.tls import TlsSettings
from broker_ctl.settings.subjects.tokens import JwtSettings, LoopbackTokenSettings, OpenIdSettings
from broker_ctl.settings.subjects.zookeeper import ZooKeeperSettings
from broker_ctl.settings.values import write


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, by subject; without arguments, the defaults.

    Attributes:
        origins: where each value was given, by key; missing keys have their default. Settings are
            compared without origins.
    """

    broker: BrokerSettings = field(default_factory=BrokerSettings)
    security: SecuritySettings = field(default_factory=SecuritySettings)
    jwt: JwtSettings = field(default_factory=JwtSettings)
    loopback_token: LoopbackTokenSettings = field(default_factory=LoopbackTokenSettings)
    openid: OpenIdSettings = field(default_factory=OpenIdSettings)
    tls: TlsSettings = field(default_factory=TlsSettings)
    http_ports: HttpPortSettings = field(default_factory=HttpPortSettings)
    api: HttpSettings = field(default_factory=HttpSettings)
    client_limits: ClientLimitSettings = field(default_factory=ClientLimitSettings)
    metadata: MetadataSettings = field(default_factory=MetadataSettings)
    zookeeper: ZooKeeperSettings = field(default_factory=ZooKeeperSettings)
    session: SessionSettings = field(default_factory=SessionSettings)
    dataplane: DataPlaneSettings = field(default_factory=DataPlaneSettings)
    pulsar: PulsarSettings = field(default_factory=PulsarSettings)
    partitions: PartitionSettings = field(default_factory=PartitionSettings)
    load_report: LoadReportSettings = field(default_factory=LoadReportSettings)
    balancing: BalancingSettings = field(default_factory=BalancingSettings)
    shedding: SheddingSettings = field(default_factory=SheddingSettings)
    shedders: ShedderSettings = field(default_factory=ShedderSettings)
    placement: PlacementSettings = field(default_factory=PlacementSettings)
    planner: PlannerSettings = field(default_factory=PlannerSettings)
    slow_brokers: SlowBrokerSettings = field(default_factory=SlowBrokerSettings)
    splitting: SplittingSettings = field(default_factory=SplittingSettings)
    history: HistorySettings = field(default_factory=HistorySettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    log: LogSettings = field(default_factory=LogSettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)

    def value(self, key: str) -> object:
        """The value of a key; KeyError for an unknown key."""
        declaration = DECLARATIONS[key]
        value: object = getattr(getattr(self, declaration.subject), declaration.name)
        return value

    def text(self, key: str) -> str:
        """The value of a key as broker.conf writes it; empty if unset."""
        return write(self.value(key))

    def origin(self, key: str) -> str:
        """``default``, ``file:line``, ``environment``, ``--set`` or ``dynamic``."""
        return self.origins.get(key, DEFAULT_ORIGIN)

    def with_values(self, values: Mapping[str, object], origins: Mapping[str, str]) -> "Settings":
        """These settings with other values for some keys, which are not validated here."""
        by_subject: dict[str, dict[str, Any]] = {}
        for key, value in values.items():
            declaration = DECLARATIONS[key]
            by_subject.setdefault(declaration.subject, {})[declaration.name] = value
        changed: dict[str, Any] = {
            subject: replace(getattr(self, subject), **fields)
            for subject, fields in by_subject.items()
        }
        return replace(self, **changed, origins={**self.origins, **origins})


SUBJECTS: Final[Mapping[str, type[Any]]] = {
    name: kind for name, kind in get_type_hints(Settings).items() if name != "origins"
}
DECLARATIONS: Final[Mapping[str, Declaration]] = {
    declaration.key: declaration for declaration in declared(SUBJECTS)
}
