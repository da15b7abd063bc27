"""Changes in place: updates by a condition, and merges of DataFrames into a table, computed by Spark."""
