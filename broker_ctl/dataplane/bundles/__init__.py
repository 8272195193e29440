"""The protocol of a data plane that serves bundles, and the tables that enforce its promises."""
