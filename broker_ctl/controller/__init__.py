"""The partition controller: what only the broker that is elected controller runs.

Docs: kafka-design-v3.
"""
