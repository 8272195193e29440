"""Instruments connected to what they measure."""
