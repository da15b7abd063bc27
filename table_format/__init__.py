"""Hudi's storage format: properties, timeline, file slices, HFile, log files, metadata table."""
