"""File slices of a table at one instant, and what their partition paths say."""
