"""The surface as the settings ask for it."""

from broker_ctl.api.http.credentials import Credentials
from broker_ctl.api.http.dependencies import ApiRules, Readiness
from broker_ctl.broker.replicas.lifecycle import Replicas
from broker_ctl.clock import Clock
from broker_ctl.coordination.session.watcher import SessionWatcher
from broker_ctl.daemon.wiring.foundation import Foundation
from broker_ctl.daemon.wiring.stores import read_secret
from broker_ctl.daemon.wiring.tls import server_context
from broker_ctl.settings.root import Settings

# Authority without an end is told as a day; whoever pulls it asks again long before.
_LONGEST_S = 86_400.0


def surface_rules(settings: Settings, credentials: Credentials | None) -> ApiRules:
    """Where it listens, whom it lets in, and its bounds.

    Raises:
        StartError, SettingsError: a secret, a certificate or a key that cannot be read.
    """
    secret_file = settings.dataplane.secret_file
    secret = None if secret_file is None else read_secret(secret_file, "dataPlaneSecretFile")
    return ApiRules(
        cluster=settings.broker.cluster_name,
        address=settings.broker.bind_address,
        port=settings.broker.web_service_port,
        port_tls=settings.broker.web_service_port_tls,
        lookup_port=settings.broker.lookup_service_port,
        lookup_port_tls=settings.broker.lookup_service_port_tls,
        tls=server_context(settings),
        max_body_bytes=settings.surface.max_body_bytes,
        status_file=settings.surface.status_file,
        max_requests=settings.surface.max_requests_in_flight,
        max_lookups=settings.surface.max_concurrent_lookups,
        max_connections=settings.surface.max_connections,
        idle_timeout_s=settings.surface.idle_timeout_s,
        split_algorithm=settings.splitting.default_algorithm,
        split_algorithms=settings.splitting.supported_algorithms,
        credentials=credentials,
        dataplane_secret=None if secret is None else secret.decode(errors="replace"),
    )


def authority(
    watcher: SessionWatcher, clock: Clock, replicas: Replicas | None = None
) -> tuple[int, int]:
    """Session epoch, and for how many milliseconds acts may still be started.

    Where there are replicas: none before all that led in an earlier session has been stopped.
    """
    is_granted = replicas is None or replicas.is_granted(watcher.epoch)
    remaining_s = watcher.deadline_s - clock.now_s() if is_granted else 0.0
    return watcher.epoch, round(min(max(remaining_s, 0.0), _LONGEST_S) * 1000)


def readiness_of(now: Readiness, base: Foundation) -> Readiness:
    """What the lifecycle says, unless something has ended under a broker that is at work."""
    watcher = base.watcher
    if now.is_ready and base.clock.now_s() >= watcher.deadline_s:
        return Readiness(is_ready=False, reason=f"no authority: the session is {watcher.state}")
    if now.is_ready and (dead := base.faults.dead):
        reason = f"task {dead[0]} has failed, the log says why: restart this daemon"
        return Readiness(is_ready=False, reason=reason)
    return now
