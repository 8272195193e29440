"""The protocol of a data plane that serves bundles, and what keeps its promises."""
