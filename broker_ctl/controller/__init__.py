"""The partition controller, which only the elected controller runs.

Docs: kafka-design-v3.
"""
