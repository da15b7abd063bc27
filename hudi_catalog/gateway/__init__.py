"""The gateway before Trino: queries over Hudi tables get the list of files that they need."""
