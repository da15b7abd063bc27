"""Merging of log files over base files: which version of a record a query sees."""
