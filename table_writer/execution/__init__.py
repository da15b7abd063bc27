"""Execution."""
