"""The replicated log of the simulated broker process (seed: B; design: data plane)."""
