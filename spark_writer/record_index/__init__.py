"""The record index in Spark: look-ups and tagging on DataFrames, building and checking it."""
