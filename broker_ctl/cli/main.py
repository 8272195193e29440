"""The command line: its commands, and how errors are reported."""

import errno
import io
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from broker_ctl.cli.runtime.verbs import ImportedVerbs, Verb
from broker_ctl.core.model.safe_text import escape
from broker_ctl.errors import BrokerCtlError

# By what somebody is doing. Modules import the floors below only when their command runs, and the
# list imports none of them.
SECTIONS: Final[Mapping[str, Mapping[str, Verb]]] = {
    "See what happens": {
        "status": Verb(
            "broker_ctl.cli.cluster:status", "Show the state of a broker or of the cluster."
        ),
        "doctor": Verb(
            "broker_ctl.cli.diagnosis:doctor", "Find out what is wrong, and what to do."
        ),
        "explain": Verb("broker_ctl.cli.cluster:explain", "Show why the leader decided as it did."),
        "history": Verb(
            "broker_ctl.cli.cluster:history", "Show recent decisions and their results."
        ),
        "leader": Verb("broker_ctl.cli.cluster:leader", "Show which broker leads."),
        "brokers": Verb(
            "broker_ctl.cli.cluster:brokers", "List live brokers; show and monitor their load."
        ),
        "topics": Verb("broker_ctl.cli.bundles:topics", "Look up, unload and partition topics."),
        "audit": Verb("broker_ctl.cli.audit:command", "Verify or show an audit log."),
        "support-bundle": Verb(
            "broker_ctl.cli.diagnosis:support_bundle", "Collect what helps to find a fault."
        ),
    },
    "Act on the cluster": {
        "plan": Verb("broker_ctl.cli.balancing:command", "Show, approve or stop a balancing plan."),
        "pause": Verb("broker_ctl.cli.balancing:pause", "Pause automatic balancing."),
        "resume": Verb(
            "broker_ctl.cli.balancing:resume", "Resume automatic balancing after a pause."
        ),
        "drain": Verb(
            "broker_ctl.cli.balancing:drain", "Drain a broker; show the progress of drains."
        ),
        "undrain": Verb("broker_ctl.cli.balancing:undrain", "End the drain of a broker."),
        "rollout": Verb("broker_ctl.cli.rollout:command", "Restart all brokers in turn."),
        "bundles": Verb(
            "broker_ctl.cli.bundles:bundles", "List, unload, split, merge and move bundles."
        ),
        "namespaces": Verb(
            "broker_ctl.cli.bundles:namespaces",
            "Create, list, unload and delete namespaces; set their clusters.",
        ),
        "partitions": Verb(
            "broker_ctl.cli.partitions:partitions", "Create, show and move replicated partitions."
        ),
        "elect": Verb("broker_ctl.cli.partitions:elect", "Elect leaders of replicated partitions."),
        "controller": Verb(
            "broker_ctl.cli.partitions:controller", "Show the partition controller."
        ),
    },
    "Set rules": {
        "tenants": Verb(
            "broker_ctl.cli.policies:tenants", "Create, show, change and delete tenants."
        ),
        "clusters": Verb("broker_ctl.cli.policies:clusters", "Manage clusters and their peers."),
        "isolation-policies": Verb(
            "broker_ctl.cli.policies:isolation_policies", "Manage namespace isolation policies."
        ),
        "failure-domains": Verb(
            "broker_ctl.cli.policies:failure_domains", "Manage failure domains of brokers."
        ),
        "anti-affinity": Verb(
            "broker_ctl.cli.policies:anti_affinity", "Manage anti-affinity groups of namespaces."
        ),
        "configuration": Verb(
            "broker_ctl.cli.cluster:configuration",
            "Show and override dynamic settings of all brokers.",
        ),
    },
    "Set up": {
        "quickstart": Verb(
            "broker_ctl.cli.quickstart:command", "Run a demo cluster with a real ZooKeeper."
        ),
        "run": Verb("broker_ctl.cli.run:command", "Run the daemon of one broker."),
        "attach": Verb(
            "broker_ctl.cli.attach:command",
            "Balance a Pulsar cluster from outside, or preview that.",
        ),
        "config": Verb("broker_ctl.cli.config:command", "Write, check and show settings."),
        "secrets": Verb(
            "broker_ctl.cli.secrets:command",
            "Files of secrets and certificates that a configuration names.",
        ),
        "tokens": Verb("broker_ctl.cli.tokens:command", "Create and check tokens."),
        "cluster-key": Verb("broker_ctl.cli.cluster_key:command", "Keys that all brokers share."),
        "zookeeper": Verb(
            "broker_ctl.cli.zookeeper:command",
            "Run ZooKeeper for tests; check servers; close nodes.",
        ),
        "units": Verb("broker_ctl.cli.install:units", "Install the systemd unit."),
        "dashboards": Verb(
            "broker_ctl.cli.install:dashboards", "Write alerts and dashboard of this release."
        ),
        "dataplane": Verb(
            "broker_ctl.cli.dataplane:command",
            "Tools for a broker process that serves the messages.",
        ),
        "completion": Verb("broker_ctl.cli.install:completion", "Print the completion of a shell."),
        "man-pages": Verb("broker_ctl.cli.install:man_pages", "Write the manual pages."),
    },
    "Study": {
        "simulate": Verb(
            "broker_ctl.cli.simulate:command", "Replay a day under a policy, or under settings."
        ),
        "advise": Verb("broker_ctl.cli.advise:command", "Advise on the size of the cluster."),
        "pipeline": Verb(
            "broker_ctl.cli.pipeline.group:command", "Analyse the history that daemons write."
        ),
    },
}
VERBS: Final = [verb for verbs in SECTIONS.values() for verb in verbs]
_OUTPUT_FAILS: Final = frozenset({errno.EBADF, errno.EIO, errno.ENOSPC, errno.EDQUOT})


class _Closed(io.TextIOBase):
    """In the place of a standard output that is not there."""

    def write(self, _: str, /) -> int:
        """Fail as the kernel would."""
        raise OSError(errno.EBADF, "it is closed")


class Verbs(ImportedVerbs):
    """The verbs, and how their errors are reported."""

    places = SECTIONS

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line; standard output that is closed or full is one message."""
        if sys.stdout is None:
            sys.stdout = _Closed()
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            # An error of a file names it: those are reported where the file is known.
            if error.errno not in _OUTPUT_FAILS or error.filename is not None:
                raise
            sys.stdout = _Closed()  # nothing is left to be written when the process ends
            click.echo(f"Error: cannot write to standard output: {error.strerror}", err=True)
            sys.exit(1)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb; a `BrokerCtlError` becomes one message and exit code 1.

        Errors may quote names and answers of others: their control characters are escaped.
        """
        try:
            return self._run(ctx)
        except click.ClickException as error:
            # The others are about the operator's own words, or JSON.
            if type(error) is not click.ClickException:
                raise
            raise click.ClickException(escape(error.message, keep="\n\t")) from error

    def _run(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokerCtlError as error:
            raise click.ClickException(str(error)) from error
        except ExceptionGroup as group:
            # A task group wraps what its children raise. A bug among them keeps its traceback.
            errors = list(_leaves(group))
            if not all(isinstance(error, BrokerCtlError) for error in errors):
                raise
            raise click.ClickException("\n".join(map(str, errors))) from group


def _leaves(group: ExceptionGroup[Exception]) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, ExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


_EXAMPLES: Final = """\b
Examples:
  broker-ctl quickstart
  broker-ctl config check broker.conf
  broker-ctl status --cluster --url http://broker-2:8080
"""


@click.group(cls=Verbs, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="broker-ctl", prog_name="broker-ctl")
def main() -> None:
    """Control plane of a message-broker cluster."""
