"""Tables by name, scan planning, and the command line."""
