"""Proxy in front of Trino that rewrites queries over Hudi tables to read only the files they need."""
