"""``broker-ctl attach``: balance a Pulsar cluster from outside, or preview that."""

from pathlib import Path
from typing import Final

import click

from broker_ctl.cli.plan_state import PlanState
from broker_ctl.cli.runtime.output import Output, output_option
from broker_ctl.cli.runtime.target import set_option
from broker_ctl.cli.runtime.zookeeper_target import ZooKeeperTarget, zookeeper_options

# Exit codes of --once; 1 and 2 are taken by failures and wrong options.
_EXIT_CODES: Final = {
    PlanState.EMPTY: 0,
    PlanState.HAS_DECISIONS: 3,
    PlanState.OUTDATED_METADATA: 4,
}
_EXAMPLES: Final = """\b
Examples:
  broker-ctl attach --zookeeper zk1,zk2,zk3 --admin http://broker-1:8080
  broker-ctl attach --zookeeper zk1:2181/pulsar --admin http://broker-1:8080 --once
  broker-ctl attach --zookeeper zk1 --admin http://broker-1:8080 --history /var/lib/attached
  broker-ctl attach --zookeeper zk1 --admin http://broker-1:8080 --act --disable-cluster-balancer
  broker-ctl attach --zookeeper zk1 --admin https://broker-1:8443 --token-file super-user.jwt
  broker-ctl attach --zookeeper zk1:2281 --zookeeper-tls --zookeeper-sasl-file zk.secret --admin https://b1
  broker-ctl attach --config attached.conf --once
  broker-ctl attach --source admin --admin http://b1:8080 --once --output json
  broker-ctl attach --admin http://b1:8080 --state file:/var/lib/attach --act

\b
Exit codes: 0 stopped, or with --once: the plan is empty; 3 with --once: the plan has decisions;
4 with --once: the cluster is not as it is shown, or not now; 1 no such cluster, or it
cannot be balanced from outside; 2 wrong option.
"""


def _state_url(source: str | None, state: str | None) -> str | None:
    """Where the state is, if not in ZooKeeper."""
    if source == "zookeeper" and state:
        raise click.UsageError("--state excludes --source zookeeper, which keeps it in ZooKeeper")
    return state or ("memory:" if source == "admin" else None)


@click.command(epilog=_EXAMPLES)
@zookeeper_options
@click.option(
    "--admin",
    multiple=True,
    metavar="URL",
    help="URL of a broker's admin API; several are tried in turn.  [default: pulsarAdminUrl]",
)
@click.option(
    "--source",
    type=click.Choice(["zookeeper", "admin"]),
    help="Where the cluster is read: in ZooKeeper, or by the admin API alone, for every metadata "
    "store and load manager.  [default: zookeeper, or admin with --state]",
)
@click.option(
    "--state",
    metavar="URL",
    help="Where --source admin keeps pauses, drains, plans and its election: file:/directory, "
    "kubernetes:namespace/name or memory:.  [default: pulsarStateUrl, else memory:]",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the token of a superuser of the cluster.",
)
@click.option(
    "--cluster",
    metavar="NAME",
    help="Cluster to balance; required if the store has several clusters.",
)
@click.option("--act", is_flag=True, help="Carry out the plan; otherwise it is only shown.")
@click.option(
    "--disable-cluster-balancer",
    "disable_balancer",
    is_flag=True,
    help="Disable the cluster's own shedding and splitting while this command runs.",
)
@click.option(
    "--yes", is_flag=True, help="Do not ask for confirmation of --disable-cluster-balancer."
)
@click.option("--once", "is_once", is_flag=True, help="Show one plan and exit; writes nothing.")
@click.option(
    "--for",
    "limit_s",
    type=click.FloatRange(min=1),
    metavar="SECONDS",
    help="Time to run.  [default: until Ctrl-C]",
)
@click.option(
    "--history",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for load and decision history, the input of `broker-ctl pipeline`.",
)
@click.option(
    "--web-port",
    type=click.IntRange(1, 65_535),
    help="Port for metrics and `broker-ctl status --cluster`.  [default: any free port]",
)
@set_option("Any other setting; repeatable.")
@output_option(text="Json: one object per line and snapshot.")
@click.pass_context
def command(
    ctx: click.Context,
    target: ZooKeeperTarget,
    *,
    admin: tuple[str, ...],
    source: str | None,
    state: str | None,
    token_file: Path | None,
    cluster: str | None,
    act: bool,
    disable_balancer: bool,
    yes: bool,
    is_once: bool,
    limit_s: float | None,
    history: Path | None,
    web_port: int | None,
    overrides: tuple[str, ...],
    output: str,
) -> None:
    """Show load, imbalance and planned moves, with reasons, of a cluster of Pulsar brokers.

    Works with Pulsar 2.9 to 5.0: over ZooKeeper with the modular load manager, or by the admin API
    alone. The cluster's own nodes are never written. --act moves and splits, but not while the
    cluster's own balancer does, nor before Pulsar 3.0. Of several, an elected one decides.
    """
    if is_once and (act or disable_balancer or history):
        raise click.UsageError("--once excludes --act, --history and --disable-cluster-balancer")
    if disable_balancer and not act:
        raise click.UsageError("--disable-cluster-balancer requires --act")
    from broker_ctl.cli.attach_runner import AttachOptions, attach

    options = AttachOptions(
        target,
        admin,
        state=_state_url(source, state),
        token_file=token_file,
        cluster=cluster,
        acts=act,
        disables_balancer=disable_balancer,
        is_confirmed=yes,
        is_once=is_once,
        limit_s=limit_s,
        history=history,
        web_port=web_port,
        overrides=overrides,
        is_json=Output(output) is Output.JSON,
    )
    ctx.exit(_EXIT_CODES[attach(options)])
