"""The replicated log of the simulated broker process (docs: kafka-design-v3, broker-process)."""
