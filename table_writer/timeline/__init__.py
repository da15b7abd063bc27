"""What writers put on a table's timeline and beside it: instants, the table lock, heartbeats, markers."""
