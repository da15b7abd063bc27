"""Hive: the service that its storage handler asks which splits a query reads."""
