"""The history of decisions and load, recorded on disk for the pipeline."""
