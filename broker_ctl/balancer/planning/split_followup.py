"""The children of a split may move at once (loadBalancerAutoUnloadSplitBundlesEnabled).

Pulsar unloads all children and leaves their placement to the next lookups, possibly at the same
broker. Here they are proposed for a move like any other bundle: placement chooses the receivers,
budgets limit the number, and a child without a better or permitted place stays.
"""

from collections.abc import Collection, Mapping

from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.decisions import Action, Split
from broker_ctl.core.history.journal import Outcome
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.commands import Reply
from broker_ctl.core.planning.cycle import plan_proposals
from broker_ctl.core.strategies.splitting.new_bundles import unload_new_bundles
from broker_ctl.store import paths


def children_of_splits(done: Mapping[Action, Reply]) -> list[Bundle]:
    """The children of all splits that were executed."""
    return [
        Bundle.parse(text)
        for decision, reply in done.items()
        if isinstance(decision, Split)
        for text in reply["children"]
    ]


async def spread_children(
    term: LeaderTerm, children: Collection[Bundle], draw_seed: int = 0
) -> None:
    """Move those for which another broker is the better place; a failed move is recorded.

    Raises:
        StoreError: the view could not be taken.
        InvariantBroken: the plan would break a safety sentence; nothing of it is done.
        ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
    """
    if not children:
        return
    # Our copy of the rings may be older than the change made by the owner.
    for namespace in sorted({child.namespace for child in children}):
        await term.dependencies.store.sync(paths.local_policies(namespace))
    view = await term.snapshot_builder.build(draw_seed)
    proposals = unload_new_bundles(view, children)
    rules = term.dependencies.rules()
    plan = await term.dependencies.planner.run(plan_proposals, view, proposals, rules)
    for skip in plan.skipped:
        term.recorder.record(skip, Outcome("skipped"))
    await term.executor.execute_all(plan.decisions, plan.order.waits)
