"""Answers that a broker keeps ready: while their version stands, they are what memory says (I6)."""

from broker_ctl.broker.lookup.lookup import ANSWER_LIFE_S, Connect, Lookup, Redirect
from broker_ctl.core.model.names import Topic
from tests.deterministic.judges.observer import Observer
from tests.deterministic.world.topics import topics


class ReadyAnswersJudge:
    """Asks a broker's memory whenever it is called, and compares what it said before."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        # By lookup: a daemon that starts again has another one.
        self._said: dict[Lookup, tuple[int, float, dict[Topic, Connect | Redirect]]] = {}
        self.compared = 0

    def look(self, lookup: Lookup, now_s: float) -> None:
        """Compare each topic's answer with the one that may still be given."""
        if not lookup.is_allowed():
            return
        version, since_s, said = self._said.get(lookup, (-1, 0.0, {}))
        if lookup.version != version or now_s - since_s >= ANSWER_LIFE_S:
            version, since_s, said = lookup.version, now_s, {}
        for topic in topics():
            found = lookup.recall_anew(topic, authoritative=False)
            answer = None if found is None else found[1]
            if (before := said.get(topic)) is not None:
                self.compared += 1
                if answer != before:
                    what = f"I6: {topic} is answered with {before}, and memory says {answer}"
                    self._observer.complain(what, now_s)
            if answer is not None:
                said[topic] = answer
        self._said[lookup] = version, since_s, said
