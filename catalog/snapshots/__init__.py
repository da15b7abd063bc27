"""A table at one instant: its file slices, its schema, and what is known of their contents."""
