"""The leader's part of a rollout: what is the cluster's is done here, not what is a machine's."""
