"""The load balancer, which only the elected leader runs: it sheds, places, splits and merges."""
