"""The console of one process, built from its dependencies."""

from broker_ctl.api.console.calls import Answer, Calls
from broker_ctl.api.console.forwarding import forward_to_brokers
from broker_ctl.api.console.reading import ConsoleRules, Reading
from broker_ctl.api.console.sessions import Sessions
from broker_ctl.api.http.dependencies import ApiRules, ControlDependencies


def build_reading(dependencies: ControlDependencies, rules: ApiRules, answer: Answer) -> Reading:
    """What the console of a process reads, and acts through.

    ``answer`` answers the requests that its pages make for their clients.
    """
    forwarding = dependencies.forwarding
    forward = None if forwarding is None else forward_to_brokers(dependencies.cluster, forwarding)
    console = ConsoleRules(
        rules.cluster,
        dependencies.own_id,
        is_served=rules.has_console,
        is_read_only=rules.is_console_read_only,
        authenticator=rules.authenticator,
        policy=rules.policy,
    )
    sessions = Sessions(dependencies.own_id, dependencies.clock)
    return Reading(
        Calls(answer, forward, dependencies.cluster.urls_of),
        dependencies.clock,
        console,
        sessions,
        dependencies.instruments.bounds,
    )
