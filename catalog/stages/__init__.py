"""What a filter leaves of a table: one pruning stage a module."""
