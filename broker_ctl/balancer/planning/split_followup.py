"""What comes of a split may go elsewhere at once (loadBalancerAutoUnloadSplitBundlesEnabled).

Pulsar unloads all children and leaves it to the next lookups where they land, which may be where
they were. Here they are proposed for a move like any other bundle: placement says who receives
them, the budgets how many, and one that would gain nothing, or may live nowhere else, stays.
"""

from collections.abc import Collection, Mapping

from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.decisions import Action, Split
from broker_ctl.core.history.journal import Outcome
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.commands import Reply
from broker_ctl.core.planning.cycle import plan_proposals
from broker_ctl.core.strategies.splitting.new_parts import to_spread
from broker_ctl.store import paths


def parts_of(done: Mapping[Action, Reply]) -> list[Bundle]:
    """The children of all splits that were carried out."""
    return [
        Bundle.parse(text)
        for decision, reply in done.items()
        if isinstance(decision, Split)
        for text in reply["children"]
    ]


async def spread_parts(leading: LeaderTerm, parts: Collection[Bundle], draw_seed: int = 0) -> None:
    """Move those for which another broker is the better place; a failed move is written down.

    Raises:
        StoreError: the view could not be taken.
        InvariantBroken: the plan would break a safety sentence; nothing of it is done.
        ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
    """
    if not parts:
        return
    # Our copy of the rings may be behind the owner that has just changed them.
    for namespace in sorted({part.namespace for part in parts}):
        await leading.parts.store.sync(paths.local_policies(namespace))
    view = await leading.survey.take(draw_seed)
    proposals = to_spread(view, parts)
    rules = leading.parts.rules()
    plan = await leading.parts.planner.run(plan_proposals, view, proposals, rules)
    for skip in plan.skipped:
        leading.outcomes.record(skip, Outcome("skipped"))
    await leading.hands.perform(plan.decisions)
