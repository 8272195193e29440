"""Parent nodes, created on first use."""

from broker_ctl.controller.state.state_changes import StateChanger
from broker_ctl.errors import MultiFailed, NodeExists
from broker_ctl.store.interface import Create, MetadataStore


async def make_parents(store: MetadataStore, state_changer: StateChanger, path: str) -> None:
    """Create all missing parents of ``path`` as persistent nodes, which stay when empty."""
    steps = path.split("/")[1:-1]
    for count in range(1, len(steps) + 1):
        parent = "/" + "/".join(steps[:count])
        if await store.exists(parent) is None:
            try:
                await state_changer.write([Create(parent)])
            except MultiFailed as error:
                if not isinstance(error.cause, NodeExists):
                    raise
