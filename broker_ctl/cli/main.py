"""The command line: its commands, and how errors are reported."""

import errno
import io
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from broker_ctl.cli.runtime.verbs import ImportedVerbs
from broker_ctl.core.model.broker import escape
from broker_ctl.errors import BrokerCtlError

# By what somebody is doing. Modules import the floors below only when their command runs, so that
# --help stays fast.
SECTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "See what happens": {
        "status": "broker_ctl.cli.cluster:status",
        "doctor": "broker_ctl.cli.diagnosis:doctor",
        "explain": "broker_ctl.cli.cluster:explain",
        "history": "broker_ctl.cli.cluster:history",
        "leader": "broker_ctl.cli.cluster:leader",
        "brokers": "broker_ctl.cli.cluster:brokers",
        "topics": "broker_ctl.cli.bundles:topics",
        "audit": "broker_ctl.cli.audit:command",
        "support-bundle": "broker_ctl.cli.diagnosis:support_bundle",
    },
    "Act on the cluster": {
        "plan": "broker_ctl.cli.balancing:command",
        "pause": "broker_ctl.cli.balancing:pause",
        "resume": "broker_ctl.cli.balancing:resume",
        "drain": "broker_ctl.cli.balancing:drain",
        "undrain": "broker_ctl.cli.balancing:undrain",
        "rollout": "broker_ctl.cli.rollout:command",
        "bundles": "broker_ctl.cli.bundles:bundles",
        "namespaces": "broker_ctl.cli.bundles:namespaces",
        "partitions": "broker_ctl.cli.partitions:partitions",
        "elect": "broker_ctl.cli.partitions:elect",
        "controller": "broker_ctl.cli.partitions:controller",
    },
    "Set rules": {
        "tenants": "broker_ctl.cli.policies:tenants",
        "clusters": "broker_ctl.cli.policies:clusters",
        "isolation-policies": "broker_ctl.cli.policies:isolation_policies",
        "failure-domains": "broker_ctl.cli.policies:failure_domains",
        "anti-affinity": "broker_ctl.cli.policies:anti_affinity",
        "configuration": "broker_ctl.cli.cluster:configuration",
    },
    "Set up": {
        "quickstart": "broker_ctl.cli.quickstart:command",
        "run": "broker_ctl.cli.run:command",
        "attach": "broker_ctl.cli.attach:command",
        "config": "broker_ctl.cli.config:command",
        "secrets": "broker_ctl.cli.secrets:command",
        "tokens": "broker_ctl.cli.tokens:command",
        "cluster-key": "broker_ctl.cli.cluster_key:command",
        "ca": "broker_ctl.cli.ca:command",
        "zookeeper": "broker_ctl.cli.zookeeper:command",
        "units": "broker_ctl.cli.install:units",
        "dashboards": "broker_ctl.cli.install:dashboards",
        "dataplane": "broker_ctl.cli.dataplane:command",
        "completion": "broker_ctl.cli.install:completion",
        "man-pages": "broker_ctl.cli.install:man_pages",
    },
    "Study": {
        "simulate": "broker_ctl.cli.simulate:command",
        "advise": "broker_ctl.cli.advise:command",
        "pipeline": "broker_ctl.cli.pipeline.group:command",
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
