"""The writing protocol: markers, locks, commits, rollbacks, cleaning and the creation of tables."""
