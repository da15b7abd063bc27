"""One table: its client and the history of its schema."""
