"""What the services for engines have in common: servers, secrets, the log of planned queries, metrics."""
