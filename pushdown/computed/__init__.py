"""Computations over rows, as Spark in ANSI mode carries them out."""
