"""Hudi tables in the metastores of other engines."""
