"""Changes in place: updates by a condition, and merges of rows into a table, in this process."""
