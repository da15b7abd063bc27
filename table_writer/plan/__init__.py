"""What a write does, decided before any task runs: operation, options, table properties, merge rule."""
