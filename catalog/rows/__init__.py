"""Rows of file slices, and their JSON text."""
