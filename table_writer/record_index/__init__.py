"""Building a record index from a table's data, resizing it, and verifying it."""
