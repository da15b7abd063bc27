"""Table properties, index definitions and options."""
