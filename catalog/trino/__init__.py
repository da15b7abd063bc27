"""Trino and Presto: the service for their Thrift connectors, and a connection whose queries are planned here."""
