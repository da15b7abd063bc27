"""Hudi log files: blocks of data, deletes and commands, appended to one another."""
