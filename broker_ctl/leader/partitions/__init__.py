"""The partition controller: what only the broker that holds its seat runs.

Docs: kafka-design-v3.
"""
