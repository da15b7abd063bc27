"""Schema evolution, and schemas whose columns have ids."""
