"""History in tables of Iceberg or Delta: commits, schemas, files and snapshots are the format's."""
