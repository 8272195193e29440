"""What the leader writes among the operators' directives, under its epoch."""

from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.errors import BadVersion, MultiFailed, NodeExists, NoNode
from broker_ctl.store.interface import Operation


async def write_directives(term: LeaderTerm, *operations: Operation) -> bool:
    """Write all or none; false: an operator was faster, and what stands now is to be judged.

    Returns once this broker's copy has what was written.

    Raises:
        Fenced: another leader was elected.
        StoreError: nothing was written, or the nodes have to show it.
    """
    dependencies = term.dependencies
    try:
        await term.leadership.write(dependencies.store, *operations)
    except MultiFailed as error:
        if not isinstance(error.cause, NoNode | NodeExists | BadVersion):
            raise
        is_written = False
    else:
        is_written = True
    # Not in a `finally`: a write that is cancelled as the daemon stops must not wait for a copy
    # that a closed store never brings up to date.
    await dependencies.directives.wait_synced()
    return is_written
