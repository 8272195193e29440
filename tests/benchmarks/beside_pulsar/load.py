"""What is sent in the side-by-side run: seeded, skewed, and another one from the middle on."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from broker_ctl.core.model.names import Bundle, Namespace, Ring, Topic

HOT: Final = Namespace("public", "hot")
CALM: Final = Namespace("public", "calm")
BUNDLES: Final = 16
_TOPICS: Final = 32
# Of all messages, those to the hot namespace.
_HOT_RATIO: Final = 0.65
# Largest share of a topic in the messages of its namespace: a single giant cannot be levelled.
_MOST_RATIO: Final = 0.08
# After the step the rate of some topics of the hot namespace rises by a factor.
_RISING: Final = 5
_RISE: Final = 4.0
# Part of the bundles that each broker starts with.
_PLACED: Final = (0.55, 0.30, 0.15)


@dataclass(frozen=True, slots=True)
class Flow:
    """One topic: messages a second before the step, and after it."""

    topic: str
    before: float
    after: float

    @property
    def bundle(self) -> Bundle:
        """Where the topic lives; no bundle is split in the run."""
        topic = Topic.parse(self.topic)
        return Ring.even(topic.namespace, BUNDLES).bundle_of(topic)

    def rate(self, *, is_after: bool) -> float:
        """Messages a second."""
        return self.after if is_after else self.before


def flows(seed: int, per_second: float) -> tuple[Flow, ...]:
    """All topics; before and after the step as many messages come in."""
    rng = random.Random(seed)
    hot = _skewed(rng, per_second * _HOT_RATIO)
    calm = _skewed(rng, per_second * (1 - _HOT_RATIO))
    # Hashes of names that count lie close together.
    names = [f"{rng.getrandbits(64):016x}" for _ in range(_TOPICS)]
    rising = set(rng.sample(range(_TOPICS), _RISING))
    risen = [rate * _RISE if number in rising else rate for number, rate in enumerate(hot)]
    risen = [rate * sum(hot) / sum(risen) for rate in risen]
    return tuple(
        Flow(f"persistent://{namespace}/{name}", rate, later)
        for namespace, rates, after in ((HOT, hot, risen), (CALM, calm, calm))
        for name, rate, later in zip(names, rates, after, strict=True)
    )


def _skewed(rng: random.Random, total: float) -> list[float]:
    weights = [rng.paretovariate(1.1) for _ in range(_TOPICS)]
    most = sum(weights) * _MOST_RATIO
    weights = [min(weight, most) for weight in weights]
    return [total * weight / sum(weights) for weight in weights]


def first_owners(seed: int, brokers: Sequence[str]) -> dict[Bundle, str]:
    """The same skewed placement for both sides to start from."""
    rng = random.Random(seed + 1)
    bundles = [bundle for name in (HOT, CALM) for bundle in Ring.even(name, BUNDLES).bundles]
    chosen = rng.choices(brokers, _PLACED[: len(brokers)], k=len(bundles))
    return dict(zip(bundles, chosen, strict=True))


def topics_of(sent: Iterable[Flow], bundle: Bundle) -> list[str]:
    """The topics of a bundle."""
    return [flow.topic for flow in sent if flow.bundle == bundle]
