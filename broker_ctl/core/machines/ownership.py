"""States of a bundle on the broker that holds it, or is about to.

from        to          when
free        assigning   a lookup or a command asked for it, and it has no owner
assigning   owned       the data plane loaded it under its token
assigning   free        another broker was quicker
assigning   releasing   the data plane did not load it: fenced for certain before its node goes
owned       releasing   a command, an operator, a drain; or its node was deleted
releasing   free        the data plane no longer serves it, and the node is gone
releasing   owned       the transaction was refused: it is still served
owned       splitting   a command, an operator
splitting   deleted     the children have replaced it
splitting   owned       nothing to split, or the ring had changed; a child: it is served
splitting   releasing   its node was deleted, or the data plane does not serve the child
owned       merging     a command, an operator
merging     deleted     one bundle has replaced two
merging     owned       the ring had changed; the bundle that two became: it is served
merging     releasing   its node was deleted, or the data plane does not serve it
owned       reclaiming  the session ended; its authority is withdrawn, its topics are kept
releasing   reclaiming  the same
splitting   reclaiming  the same
merging     reclaiming  the same
reclaiming  owned       acquired again in the new session, under a new token
reclaiming  free        another broker acquired it, or it is not a bundle any more
reclaiming  deleted     it was split or merged, and the session ended before the answer came
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from broker_ctl.errors import InvalidTransition


class BundleState(StrEnum):
    """State of a bundle on this broker; FREE and DELETED are never held."""

    FREE = "free"
    ASSIGNING = "assigning"
    OWNED = "owned"
    RELEASING = "releasing"
    SPLITTING = "splitting"
    MERGING = "merging"
    RECLAIMING = "reclaiming"
    DELETED = "deleted"


_S = BundleState

NEXT: Final[Mapping[BundleState, frozenset[BundleState]]] = {
    _S.FREE: frozenset({_S.ASSIGNING}),
    _S.ASSIGNING: frozenset({_S.OWNED, _S.FREE, _S.RELEASING}),
    _S.OWNED: frozenset({_S.RELEASING, _S.SPLITTING, _S.MERGING, _S.RECLAIMING}),
    _S.RELEASING: frozenset({_S.FREE, _S.OWNED, _S.RECLAIMING}),
    _S.SPLITTING: frozenset({_S.DELETED, _S.OWNED, _S.RELEASING, _S.RECLAIMING}),
    _S.MERGING: frozenset({_S.DELETED, _S.OWNED, _S.RELEASING, _S.RECLAIMING}),
    _S.RECLAIMING: frozenset({_S.OWNED, _S.FREE, _S.DELETED}),
    _S.DELETED: frozenset(),
}


def advance(subject: object, state: BundleState, to: BundleState) -> BundleState:
    """``to``, where the table allows it; ``subject`` is only named where it does not.

    Raises:
        InvalidTransition: it does not.
    """
    if to not in NEXT[state]:
        raise InvalidTransition(f"ownership of {subject}", state, f"-> {to}")
    return to
