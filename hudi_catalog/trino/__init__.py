"""Trino and Presto: the service for their Thrift connectors, and a connection whose queries are planned here."""

from hudi_catalog.trino.connecting import connect

__all__ = ["connect"]
