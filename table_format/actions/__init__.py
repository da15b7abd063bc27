"""Contents of the timeline's files: commit metadata, and plans and results of table services and rollbacks."""
