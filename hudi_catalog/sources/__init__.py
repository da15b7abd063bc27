"""Rows to write, in the forms in which people have them: Arrow-like data, and files."""
