"""Options that say how the driver restarts a broker."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from broker_ctl.cli.runtime.cleartext import require_private

if TYPE_CHECKING:
    from broker_ctl.cli.rollout.hooks import RestartHook

V = TypeVar("V", bound=Callable[..., None])

_IN_CLUSTER: Final = "https://kubernetes.default.svc"
_SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"


def hook_options(verb: V) -> V:
    """Add --restart-command, --systemd, --kubernetes and what belongs to them; see `hook_of`."""
    options = (
        click.option(
            "--restart-timeout",
            type=click.FloatRange(1.0, 3600.0),
            default=300.0,
            show_default=True,
            metavar="SECONDS",
            help="Longest run of the restart of one broker.",
        ),
        click.option(
            "--kubernetes-credentials",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            metavar="DIRECTORY",
            help=f"Directory with token, ca.crt and namespace.  [default: {_SERVICE_ACCOUNT}]",
        ),
        click.option(
            "--kubernetes-api",
            default=_IN_CLUSTER,
            show_default=True,
            metavar="URL",
            help="URL of the Kubernetes API.",
        ),
        click.option(
            "--statefulset",
            metavar="NAME",
            help="StatefulSet of the brokers; with --kubernetes, only its pods are deleted.",
        ),
        click.option(
            "--kubernetes",
            is_flag=True,
            help="Delete the pod of a broker; its StatefulSet (OnDelete) creates it again.",
        ),
        click.option("--systemd", metavar="UNIT", help="Restart this unit of this machine."),
        click.option(
            "--restart-command",
            metavar="COMMAND",
            help="Command that restarts {broker}, also {host} and {port}; run without a shell.",
        ),
    )
    for option in options:
        verb = option(verb)
    return verb


def hook_of(options: dict[str, Any]) -> "RestartHook":
    """The hook by the values of `hook_options`.

    Raises:
        UsageError: not exactly one way to restart was given, or it is incomplete.
    """
    from broker_ctl.cli.rollout.hooks import CommandHook, systemd_hook
    from broker_ctl.cli.rollout.kubernetes import KubernetesHook

    command, unit, is_pod = options["restart_command"], options["systemd"], options["kubernetes"]
    if [command is not None, unit is not None, is_pod].count(True) != 1:
        raise click.UsageError("give one of --restart-command, --systemd and --kubernetes")
    timeout_s = options["restart_timeout"]
    if command is not None:
        return CommandHook.parse(command, timeout_s)
    if unit is not None:
        return systemd_hook(unit, timeout_s)
    if options["statefulset"] is None:
        raise click.UsageError("--kubernetes needs --statefulset: only pods of it are deleted")
    # The token of the service account deletes pods.
    require_private(options["kubernetes_api"])
    credentials = options["kubernetes_credentials"] or Path(_SERVICE_ACCOUNT)
    return KubernetesHook(options["statefulset"], options["kubernetes_api"], credentials, timeout_s)
