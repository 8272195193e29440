"""Plans that operators approve: shown, proposed, stored under the leader's epoch, executed."""

import asyncio
import hashlib
import logging
import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from broker_ctl.balancer.context.dependencies import LeaderRules
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.codec import encode
from broker_ctl.coordination.election import Leadership
from broker_ctl.core.cluster.decisions import Action
from broker_ctl.core.cluster.directives import MOST_WHO, AuditInfo
from broker_ctl.core.history.rows import Outcome
from broker_ctl.core.planning.approval import (
    OPEN,
    ApprovalEvent,
    ApprovalState,
    Fate,
    Fates,
    check_progress,
    mark_refused,
    record_results,
    step,
)
from broker_ctl.core.planning.decide import plan_proposals
from broker_ctl.core.planning.plan import Plan
from broker_ctl.errors import (
    CorruptRecord,
    DualAuthorizationRequired,
    MultiFailed,
    NewerVersion,
    NodeExists,
    NoNode,
    OrderConflict,
    PlanMissing,
)
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, Delete, MetadataStore, Operation, SetData
from broker_ctl.store.records.directives import MOST_PLAN_BYTES, PlanProgress, PlanRecord

log = logging.getLogger(__name__)

# Approved plans in the store; the leader is their only writer, under its epoch.


@dataclass(frozen=True, slots=True)
class Approved:
    """A plan with its progress."""

    record: PlanRecord
    progress: PlanProgress

    @property
    def is_open(self) -> bool:
        """Whether decisions may be left to execute."""
        return self.progress.state in OPEN

    def is_in_force(self, now_ms: int) -> bool:
        """Whether balancing still respects the placements of the plan."""
        until_ms = self.record.in_force_until_ms
        return now_ms < until_ms and self.progress.state is not ApprovalState.STOPPED

    def to_row(self) -> dict[str, Any]:
        """The plan and its progress as plain JSON values."""
        fates = self.progress.fates
        return {
            "id": self.record.plan_id,
            "state": self.progress.state.value,
            **self.record.order.to_row(),
            "proposed_by": self.record.proposed_by,
            "decisions": len(fates),
            **{fate.name.lower(): fates.count(fate) for fate in Fate},
            "changed_ms": self.progress.changed_ms,
            "note": self.progress.note,
            "in_force_until_ms": self.record.in_force_until_ms,
        }


class PlanStore:
    """Reads and writes approved plans."""

    def __init__(self, store: MetadataStore, leadership: Leadership) -> None:
        self._store = store
        self._leadership = leadership

    async def read_all(self) -> list[Approved]:
        """All plans that decode, by id; others are skipped.

        Raises:
            StoreError: the store is not reachable.
        """
        # Sync first: an earlier leader may have written until just now.
        await self._store.sync(paths.PLANS)
        found: list[Approved] = []
        for plan_id in await self._store.children(paths.PLANS):
            plan_paths = [paths.plan(plan_id), paths.plan_progress(plan_id)]
            plan, progress = await self._store.get_many(plan_paths)
            if plan is None or progress is None:
                log.warning("skipped plan %s: its progress node is missing", plan_paths[0])
                continue
            try:
                record = PlanRecord.decode(plan.path, plan.data)
                plan_progress = PlanProgress.decode(progress.path, progress.data)
            except (CorruptRecord, NewerVersion) as error:
                log.warning("skipped a plan: %s", error)
                continue
            if len(plan_progress.fates) != len(record.decisions):
                log.warning("skipped a plan: %s does not match its decisions", plan_paths[1])
                continue
            found.append(Approved(record, plan_progress))
        return found

    async def create(self, approved: Approved) -> None:
        """Store a plan.

        Raises:
            OrderConflict: the plan is too large for a node, or exists already.
            Fenced: another broker leads.
            StoreError: the plan was not written.
        """
        data = approved.record.encode()
        if len(data) > MOST_PLAN_BYTES:
            count = len(approved.record.decisions)
            room = count * MOST_PLAN_BYTES // len(data)
            raise OrderConflict(
                f"the plan has {count} decisions, but a node holds about {room}: "
                "smaller budgets (loadBalancerMaxMovesInFlight) make smaller plans"
            )
        plan_id = approved.record.plan_id
        progress = Create(paths.plan_progress(plan_id), approved.progress.encode())
        try:
            await self._multi(Create(paths.plan(plan_id), data), progress)
        except NoNode:
            try:
                await self._store.create(paths.PLANS, make_parents=True)
            except NodeExists:
                log.debug("%s was created meanwhile", paths.PLANS)
            await self._multi(Create(paths.plan(plan_id), data), progress)

    async def write(self, plan_id: str, progress: PlanProgress) -> None:
        """Store the progress of a plan.

        Raises:
            Fenced: another broker leads.
            StoreError: the progress was not written.
        """
        await self._multi(SetData(paths.plan_progress(plan_id), progress.encode()))

    async def forget(self, plan_id: str) -> None:
        """Delete a plan that is over.

        Raises:
            Fenced: another broker leads.
            StoreError: the plan was not deleted.
        """
        await self._multi(Delete(paths.plan_progress(plan_id)), Delete(paths.plan(plan_id)))

    async def _multi(self, *operations: Operation) -> None:
        try:
            await self._leadership.write(self._store, *operations)
        except MultiFailed as error:
            if isinstance(error.cause, NodeExists):
                raise OrderConflict(f"{error.path} exists already") from error
            if isinstance(error.cause, NoNode):
                raise error.cause from error
            raise


# Plans that a leader has shown, and proposals: those that an operator has put up for approval.
#
# To look at a plan proposes nothing. A proposal is an act of a role: it ends after ten minutes,
# and its digest covers all that would be done, so that an approval cannot mean anything else.


# Maximum number of plans that are kept for readers, and the time until one expires.
_MAX_PLANS: Final = 16
_EXPIRY_S: Final = 600.0
# Nobody's proposals take the place of another's.
_MAX_PROPOSALS: Final = 32
_MAX_OF_ROLE: Final = 4
ID_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """A plan that a leader has computed for a reader.

    Attributes:
        digest: of the decisions, their epoch and whether the plan stays in force.
        at_s: when it was asked for last.
        row: the plan as it was shown.
        in_force_until_ms: see `core.plan_file.HOLDS_MS`; 0: not beyond its execution.
    """

    digest: str
    decisions: tuple[Action, ...]
    at_s: float
    row: Mapping[str, Any]
    in_force_until_ms: int = 0

    @property
    def plan_id(self) -> str:
        """The beginning of the digest."""
        return self.digest[:ID_DIGITS]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan that waits for an approval; nothing of it changes.

    Attributes:
        order: who has proposed it, when and why.
        ends_s: when it expires, by the clock of the leader.
    """

    plan: ShownPlan
    order: AuditInfo
    ends_s: float

    def to_row(self) -> dict[str, Any]:
        """The plan as it was shown, by whom it was proposed and when that ends."""
        return {
            **self.plan.row,
            "proposed_by": self.order.who,
            "proposed_ms": self.order.at_ms,
            "proposal_reason": self.order.why,
            "expires_ms": self.order.at_ms + round(_EXPIRY_S * 1000),
        }


class ProposedPlans:
    """Shown and proposed plans of one term, by id."""

    def __init__(self) -> None:
        self._shown: OrderedDict[str, ShownPlan] = OrderedDict()
        self._proposals: dict[str, Proposal] = {}

    def show(self, plan: ShownPlan) -> None:
        """Keep a plan that was shown, so that it can be named; the oldest is dropped."""
        self._shown[plan.plan_id] = plan
        self._shown.move_to_end(plan.plan_id)
        if len(self._shown) > _MAX_PLANS:
            self._shown.popitem(last=False)

    def find(self, plan_id: str, now_s: float) -> ShownPlan:
        """A plan by its id; of one that was proposed, the proposed one.

        Raises:
            PlanMissing: the plan was neither shown nor proposed, or has expired.
        """
        proposal = self.proposal(plan_id, now_s)
        if proposal is not None:
            return proposal.plan
        shown = self._shown.get(plan_id)
        if shown is None or now_s - shown.at_s > _EXPIRY_S:
            raise PlanMissing(
                f"this leader has shown no plan {plan_id[:40]} within {_EXPIRY_S:.0f} s: "
                "ask for a plan again"
            )
        return shown

    def proposal(self, plan_id: str, now_s: float) -> Proposal | None:
        """The proposal of a plan; None: nobody has proposed it, or that has expired."""
        return next((one for one in self.proposals(now_s) if one.plan.plan_id == plan_id), None)

    def proposals(self, now_s: float) -> list[Proposal]:
        """What waits for an approval, the oldest first."""
        self._proposals = {name: one for name, one in self._proposals.items() if now_s < one.ends_s}
        return list(self._proposals.values())

    def propose(
        self, plan_id: str, order: AuditInfo, now_s: float, *, is_dry_run: bool = False
    ) -> Proposal:
        """Put a plan that was shown up for approval; the same role's second time is the first.

        Raises:
            PlanMissing: the plan was not shown, or has expired.
            OrderConflict: it is empty, or proposed by another, or too many proposals are open.
        """
        plan, known = self.find(plan_id, now_s), self.proposal(plan_id, now_s)
        if known is not None:
            if known.order.who == order.who:
                return known
            raise OrderConflict(f"{known.order.who} has proposed plan {plan_id}: approve that one")
        if not plan.decisions:
            raise OrderConflict(f"plan {plan_id} is empty: nothing to propose")
        open_ones = self.proposals(now_s)
        of_role = sum(one.order.who == order.who for one in open_ones)
        if of_role >= _MAX_OF_ROLE or len(open_ones) >= _MAX_PROPOSALS:
            raise OrderConflict(
                f"{of_role} proposals of {order.who or 'operators'} and {len(open_ones)} in all "
                f"wait for an approval: each ends {_EXPIRY_S:.0f} s after it was made"
            )
        proposal = Proposal(plan, order, now_s + _EXPIRY_S)
        if not is_dry_run:
            self._proposals[plan_id] = proposal
        return proposal

    def to_approve(
        self, plan_id: str, who: str, digest: str, now_s: float, *, needs_second: bool
    ) -> tuple[ShownPlan, str]:
        """The plan that a role approves by the digest of what it has seen, and its proposer.

        Without a digest it is the plan of this id. With ``needs_second``, another role than ``who``
        has to have proposed it, and the digest has to be there.

        Raises:
            PlanMissing: the plan was neither shown nor proposed, or has expired.
            DualAuthorizationRequired: nobody has proposed the plan, or ``who`` has.
            OrderConflict: the digest is that of another plan, or is missing.
        """
        plan, proposal = self.find(plan_id, now_s), self.proposal(plan_id, now_s)
        if needs_second:
            _require_second(plan_id, proposal, who)
            if not digest:
                raise OrderConflict(
                    f"the approval of plan {plan_id} has to name the digest of what is approved: "
                    f"see GET /control/v1/plans/{plan_id} (dualAuthorizationEnabled=true)"
                )
        if digest and digest != plan.digest:
            raise OrderConflict(f"plan {plan_id} is not the one that was seen: show it again")
        return plan, who if proposal is None else proposal.order.who

    def close(self, plan_id: str) -> None:
        """The plan is approved: its proposal waits no more."""
        self._proposals.pop(plan_id, None)


def _require_second(plan_id: str, proposal: Proposal | None, who: str) -> None:
    """Refuse an approval that leaves the plan to one person.

    Raises:
        DualAuthorizationRequired: nobody has proposed the plan, or ``who`` has.
    """
    if proposal is None:
        raise DualAuthorizationRequired(
            f"nobody has proposed plan {plan_id} within {_EXPIRY_S:.0f} s: another role has to, "
            f"with broker-ctl plan --propose {plan_id} (dualAuthorizationEnabled=true)"
        )
    if proposal.order.who == who:
        raise DualAuthorizationRequired(
            f"{who} has proposed plan {plan_id} and cannot approve it: another role has to "
            "(dualAuthorizationEnabled=true)"
        )


def digest_of(plan: Plan, *, stays_in_force: bool = False) -> str:
    """SHA-256 of all that a plan would do: equal for equal decisions at the same epoch."""
    decisions = [decision.to_row() for decision in plan.decisions]
    fields = [plan.epoch, decisions, *(["in force"] if stays_in_force else [])]
    return hashlib.sha256(encode(fields)).hexdigest()


# Plans approved by an operator, executed by the leader.
#
# The plan is in one node and the fate of each decision in a small one beside it, so that another
# leader can continue. Neither a pause nor a dry run applies to approved plans. Each batch is
# planned on a fresh view: obsolete decisions are skipped, and those over the limit of moves in
# flight wait.


# A plan without progress for this time is stopped.
_STUCK_S: Final = 600.0
_INTERVAL_S: Final = 1.0


class Approvals:
    """The approved plans of one term: one is executed at a time."""

    def __init__(self, term: LeaderTerm) -> None:
        self._term = term
        self._clock = term.dependencies.clock
        self._nodes = PlanStore(term.dependencies.store, term.leadership)
        self._plans: dict[str, Approved] | None = None
        # Serialises reading and writing.
        self._turn = asyncio.Lock()
        self._due_s = -math.inf
        self._moved_s = -math.inf

    @property
    def due_s(self) -> float:
        """When the next batch is due; infinity if no plan has decisions left."""
        return self._due_s if self._plans is None or self._open() is not None else math.inf

    def adjusted(self, rules: LeaderRules) -> LeaderRules:
        """The current rules; they differ while a plan from the daily profile is in force."""
        now_ms = self._clock.wall_ms()
        plans = (self._plans or {}).values()
        return rules.under_plan if any(each.is_in_force(now_ms) for each in plans) else rules

    async def load(self) -> None:
        """Read the plans of earlier leaders: the first cycle must know which is in force.

        Raises:
            StoreError: the nodes could not be read.
        """
        async with self._turn:
            await self._loaded()

    # Requests of operators.

    async def approve(
        self,
        plan_id: str,
        decisions: tuple[Action, ...],
        order: AuditInfo,
        *,
        in_force_until_ms: int = 0,
        proposed_by: str = "",
        is_dry_run: bool = False,
    ) -> Approved:
        """Store a plan for immediate execution; repeating it changes nothing.

        It replaces the previous plan, even one in force. A dry run only checks that this is
        possible.

        Raises:
            OrderConflict: another plan is being executed, or this one is too large or empty.
            Fenced: another broker leads.
            StoreError: the plan was not written.
        """
        async with self._turn:
            plans = await self._loaded()
            current = self._open()
            if current is not None and current.record.plan_id == plan_id:
                return current
            if current is not None:
                raise OrderConflict(
                    f"plan {current.record.plan_id} is being carried out: wait for it, or stop it"
                )
            if not decisions:
                raise OrderConflict(f"plan {plan_id} has no decisions")
            state = step(ApprovalState.PROPOSED, ApprovalEvent.APPROVE)
            progress = PlanProgress(state, (Fate.WAITING,) * len(decisions), order.at_ms)
            epoch = self._term.leadership.epoch
            record = PlanRecord(
                plan_id, epoch, order, decisions, in_force_until_ms, proposed_by[:MOST_WHO]
            )
            approved = Approved(record, progress)
            if is_dry_run:
                return approved
            for over in [*plans]:
                await self._nodes.forget(over)
                del plans[over]
            await self._nodes.create(approved)
            plans[plan_id] = approved
        self._due_s, self._moved_s = -math.inf, self._clock.now_s()
        return approved

    async def find(self, plan_id: str) -> Approved | None:
        """Find an approved plan.

        Raises:
            StoreError: the nodes could not be read.
        """
        async with self._turn:
            return (await self._loaded()).get(plan_id)

    async def stop(self, plan_id: str, note: str, *, is_dry_run: bool = False) -> Approved:
        """Start no further decision of a plan; moves in flight end. A dry run only checks.

        Raises:
            PlanMissing: no such plan was approved.
            OrderConflict: it has ended.
            Fenced: another broker leads.
            StoreError: the progress was not written.
        """
        async with self._turn:
            approved = (await self._loaded()).get(plan_id)
            if approved is None:
                raise PlanMissing(f"no plan {plan_id} was approved")
            if not approved.is_open:
                raise OrderConflict(f"plan {plan_id} is {approved.progress.state.value} already")
            if is_dry_run:
                return approved
            return await self._write(approved, ApprovalEvent.STOP, approved.progress.fates, note)

    async def rows(self) -> list[dict[str, Any]]:
        """The plan in execution, or the last one, as plain JSON values.

        Raises:
            StoreError: the plans could not be read.
        """
        async with self._turn:
            return [approved.to_row() for approved in (await self._loaded()).values()]

    # Execution by the leader.

    async def advance(self, rules: LeaderRules) -> bool:
        """Execute a batch if one is due; returns whether a decision reached its end.

        Raises:
            StoreError: the nodes or the view could not be read, or the progress not written.
            InvariantBroken: the plan would violate an invariant; nothing of it is executed.
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
        """
        if self._clock.now_s() < self.due_s:
            return False
        self._due_s = self._clock.now_s() + _INTERVAL_S
        await self._term.leadership.wait_deciding()
        if await self._term.executor.blocked_reason():
            # Execution is blocked: this time does not count as time without progress.
            self._moved_s = -math.inf
            return False
        async with self._turn:
            await self._loaded()
            current = self._open()
            if current is None:
                return False
            before = current.progress.fates
            if self._moved_s == -math.inf or current.progress.state is ApprovalState.APPROVED:
                self._moved_s = self._clock.now_s()
                current = await self._write(current, ApprovalEvent.BEGIN, before)
        fates = await self._execute_batch(current, rules)
        async with self._turn:
            await self._settle(self._latest(current), fates)
        return fates != before

    async def _execute_batch(self, current: Approved, rules: LeaderRules) -> Fates:
        """Execute a batch; returns the fates of its decisions."""
        decisions, recorder = current.record.decisions, self._term.recorder
        view = await self._term.snapshot_builder.build(current.record.epoch)
        seen = check_progress(view, decisions, current.progress.fates)
        plan = await self._term.dependencies.planner.run(
            plan_proposals, view, seen.waiting.values(), rules
        )
        fates, final = mark_refused(seen.waiting, seen.fates, plan.skipped)
        for skip in final:
            recorder.record(skip, Outcome("skipped"))
        if not self._latest(current).is_open:
            # The plan was stopped while the batch was planned.
            return fates
        done = await self._term.executor.execute_all(plan.decisions, plan.order.waits)
        successes = frozenset(decision.bundles for decision in done)
        return record_results(seen.waiting, fates, plan.decisions, successes)

    async def _settle(self, current: Approved, fates: Fates) -> None:
        """Store the progress; a plan that was stopped meanwhile stays stopped."""
        now_s = self._clock.now_s()
        if fates != current.progress.fates:
            self._moved_s = now_s
        if Fate.WAITING not in fates:
            await self._write(current, ApprovalEvent.SETTLED, fates)
            log.info(
                "plan %s has advanced: %s", current.record.plan_id, self._latest(current).to_row()
            )
        elif now_s - self._moved_s > _STUCK_S:
            note = f"no remaining decision could be executed for {_STUCK_S:.0f} s"
            await self._write(current, ApprovalEvent.STUCK, fates, note)
        elif fates != current.progress.fates:
            await self._write(current, None, fates)

    async def _write(
        self, approved: Approved, event: ApprovalEvent | None, fates: Fates, note: str = ""
    ) -> Approved:
        progress, plan_id = approved.progress, approved.record.plan_id
        state = progress.state if event is None else step(progress.state, event, plan_id)
        written = replace(
            progress,
            state=state,
            fates=fates,
            changed_ms=self._clock.wall_ms(),
            note=note or progress.note,
        )
        assert self._plans is not None
        try:
            await self._nodes.write(plan_id, written)
        except NoNode:
            # An operator deleted the node to stop the plan.
            log.warning("plan %s stopped: its node was deleted", plan_id)
            written = replace(written, state=ApprovalState.STOPPED, note="its node was deleted")
        self._plans[plan_id] = replace(approved, progress=written)
        return self._plans[plan_id]

    def _open(self) -> Approved | None:
        return next((each for each in (self._plans or {}).values() if each.is_open), None)

    def _latest(self, approved: Approved) -> Approved:
        """The newest copy of a plan."""
        return (self._plans or {}).get(approved.record.plan_id, approved)

    async def _loaded(self) -> dict[str, Approved]:
        if self._plans is None:
            self._plans = {each.record.plan_id: each for each in await self._nodes.read_all()}
        return self._plans
