"""Claims on paths, against a naive model."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.store.batching.entries import PathOrder

PATHS = ("/a", "/b", "/c")


@dataclass(eq=False)
class Claim:
    number: int
    alone: Sequence[str]
    shared: Sequence[str]
    turns: int = 0

    @property
    def paths(self) -> tuple[str, ...]:
        return (*self.alone, *self.shared)

    def excludes(self, other: "Claim") -> bool:
        """Whether the two may not hold a path at the same time."""
        common = set(self.paths) & set(other.paths)
        return bool(common & {*self.alone, *other.alone})


@dataclass
class Model:
    """All claims in the order of entry; which may go is looked up in the whole list."""

    claims: list[Claim] = field(default_factory=list)

    def may_go(self, claim: Claim) -> bool:
        before = self.claims[: self.claims.index(claim)]
        # Also behind those that wait: a shared claim does not overtake an exclusive one.
        return not any(self._is_in_the_way(path, claim, before) for path in claim.paths)

    @staticmethod
    def _is_in_the_way(path: str, claim: Claim, before: list[Claim]) -> bool:
        on_path = [other for other in before if path in other.paths]
        return any(path in claim.alone or path in other.alone for other in on_path)


def claims() -> st.SearchStrategy[tuple[tuple[str, ...], tuple[str, ...]]]:
    kinds = st.dictionaries(st.sampled_from(PATHS), st.booleans())
    return kinds.map(
        lambda drawn: (
            tuple(path for path, is_shared in drawn.items() if not is_shared),
            tuple(path for path, is_shared in drawn.items() if is_shared),
        )
    )


@given(st.lists(st.one_of(claims(), st.integers(0, 7)), max_size=40))
def test_the_claims_that_may_go_match_a_list_of_all_claims(
    steps: list[tuple[tuple[str, ...], tuple[str, ...]] | int],
) -> None:
    order, model, going = PathOrder[Claim](), Model(), list[Claim]()
    for number, step in enumerate(steps):
        if isinstance(step, int):
            if going:
                leaving = going.pop(step % len(going))
                model.claims.remove(leaving)
                ready = order.leave(leaving.paths)
                going += ready
        else:
            claim = Claim(number, *step)
            model.claims.append(claim)
            if order.enter(claim):
                going.append(claim)
        assert {c.number for c in going} == {c.number for c in model.claims if model.may_go(c)}
        assert len(order) == len({path for claim in model.claims for path in claim.paths})
    while going:
        leaving = going.pop()
        model.claims.remove(leaving)
        going += order.leave(leaving.paths)
    assert not model.claims
    assert len(order) == 0


@given(st.lists(st.sampled_from(["share", "unshare", "take", "wait"]), max_size=30))
def test_the_fast_paths_of_one_claim_agree_with_the_general_ones(steps: list[str]) -> None:
    order, sharers, waiting = PathOrder[Claim](), 0, list[Claim]()
    is_taken = False
    for number, step in enumerate(steps):
        if step == "share":
            assert order.acquire_shared("/a") == (not is_taken and not waiting)
            sharers += not is_taken and not waiting
        elif step == "take":
            assert order.acquire_exclusive("/a") == (not is_taken and not sharers and not waiting)
            is_taken = is_taken or (not sharers and not waiting)
        elif step == "wait" and (sharers or is_taken or waiting):
            claim = Claim(number, ("/a",), ())
            assert not order.enter(claim)
            waiting.append(claim)
        elif step == "unshare" and sharers:
            assert order.release_shared("/a") == (not waiting)
            sharers -= not waiting
    ready: list[Claim] = []
    for _ in range(sharers or is_taken):
        ready += order.leave(["/a"])
    while waiting:
        assert ready == [waiting.pop(0)]
        ready = order.leave(["/a"])
    assert len(order) == 0


def test_claims_become_ready_in_the_order_in_which_they_were_made() -> None:
    order = PathOrder[Claim]()
    writer, *readers = [Claim(0, ("/a",), ()), *(Claim(n, (), ("/a",)) for n in (1, 2, 3))]
    assert order.enter(writer)
    assert not any(order.enter(reader) for reader in readers)
    assert order.leave(writer.paths) == readers
