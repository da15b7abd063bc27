"""The active and the archived timeline."""
