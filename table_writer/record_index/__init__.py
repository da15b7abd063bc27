"""Record index."""
