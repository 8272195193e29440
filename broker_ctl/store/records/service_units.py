"""Who owns a bundle under the extensible manager (docs: pulsar-extensible)."""

from dataclasses import dataclass
from typing import Final, Self

from broker_ctl.store.records.fields import Fields

# In these states the source broker, which unloads or splits the bundle, still serves it.
_AT_SOURCE: Final = frozenset({"Releasing", "Splitting"})
_OWNED: Final = "Owned"


@dataclass(frozen=True, slots=True)
class ServiceUnit:
    """A bundle's state; ``owner`` is None while no broker serves it."""

    state: str
    owner: str | None

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload.

        Raises:
            CorruptRecord: it does not fit.
        """
        fields = Fields.of(path, data)
        state = fields.text("state")
        owner = None
        if state == _OWNED:
            owner = fields.optional_text("dstBroker")
        elif state in _AT_SOURCE:
            owner = fields.optional_text("sourceBroker")
        return cls(state, owner)
