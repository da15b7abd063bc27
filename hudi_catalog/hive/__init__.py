"""The service for Hive: plans the splits that its storage handler reads."""
