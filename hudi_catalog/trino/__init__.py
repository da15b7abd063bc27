"""Trino and Presto: a service for their Thrift connectors, and a DB-API connection with queries rewritten."""

from hudi_catalog.trino.connecting import connect

__all__ = ["connect"]
