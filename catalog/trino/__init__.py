"""`catalog.trino.connect`, by its first name; `hudi_catalog.trino` is its home."""

from hudi_catalog.trino import connect

__all__ = ["connect"]
