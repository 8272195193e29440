"""What the workers do with segments: unpack, parse, judge, and write the rows to table files."""
