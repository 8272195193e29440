"""Conformance test: checks that a broker process keeps the promises of the data-plane API."""
