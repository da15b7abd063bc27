"""What the files of the timeline say: one module per kind of action."""
