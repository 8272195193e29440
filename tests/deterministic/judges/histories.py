"""What a linearizability checker says of acts and of writes, by times and answers alone.

It knows nothing of leases, tokens and sessions, and not how the observer judges.
"""

from collections.abc import Iterator, Mapping, Sequence

from tests.deterministic.judges.observer import Observer
from tests.deterministic.world.topics import NAMESPACE
from tests.linearizability.checker import Operation
from tests.linearizability.records import Owned, acts_out_of_order, writes_out_of_order


def unexplained_acts(observer: Observer) -> Iterator[str]:
    """I1a: acts that no order of owners explains; not of sessions that were ended by force."""
    reigns = [reign for under in observer.reigns.values() for reign in under]
    forced = {reign.token for reign in reigns if reign.session_id in observer.forced}
    for position, acted in sorted(observer.acted.items()):
        owned = [
            Owned(reign.broker_id, reign.begin_s, reign.end_s)
            for reign in reigns
            if reign.bundle.namespace == NAMESPACE and position in reign.bundle.range
        ]
        acts = [(t_s, broker) for t_s, broker, token in acted if token not in forced]
        if (stuck := acts_out_of_order(owned, acts, 0.0)) is not None:
            kind, broker = stuck.wish
            said = f"{kind} of {broker} at {stuck.called_s:.3f}"
            yield f"I1a: no order of owners and acts of {position:08x} explains the {said}"


def unexplained_writes(writes: Mapping[str, Sequence[Operation]]) -> Iterator[str]:
    """I4: answers to writes by version that no order of the writes explains."""
    for path, operations in writes.items():
        if (stuck := writes_out_of_order(operations)) is not None:
            yield f"I4: no order of the writes of {path} explains {stuck}"
