"""Writes by buckets: rows are divided among slots, and each slot writes new versions of its buckets' base files."""
