"""The broker with the lowest long-term message rate (docs: pulsar-placement)."""

from collections.abc import Sequence

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.tie_break import rendezvous_choice
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.placement.policy import Choice


class LeastLongTermMessageRate:
    """Pulsar's default up to 4.x.

    The rate includes every bundle that a broker owns or was promised, so that a burst of choices
    does not pile up on one broker. An overloaded broker is chosen only if all are overloaded, and
    then at random. The strategy compares numbers of messages: a broker with few huge messages
    looks idle, as in Pulsar.
    """

    def select(
        self, view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
    ) -> Choice:
        """Choose the broker with the lowest rate; ties are broken by the seed."""
        if not candidates:
            return Choice(None, Reason.NO_BROKER, "no broker is left to receive it")
        rates = {
            broker_id: load.msg_rate
            for broker_id in candidates
            if (load := view.brokers[broker_id].expected).usage_ratio <= rules.overloaded_ratio
        }
        if not rates:
            detail = f"all {len(candidates)} are above {rules.overloaded_ratio:.0%}, drawn by lot"
            chosen = rendezvous_choice(view.draw_seed, str(bundle), candidates)
            return Choice(chosen, Reason.ALL_OVERLOADED, detail)
        lowest = min(rates.values())
        tied = [broker_id for broker_id, rate in rates.items() if rate == lowest]
        detail = f"{lowest:,.0f} msg/s, the lowest of {len(rates)}"
        return Choice(
            rendezvous_choice(view.draw_seed, str(bundle), tied), Reason.LEAST_MSG_RATE, detail
        )
