"""Base file."""
