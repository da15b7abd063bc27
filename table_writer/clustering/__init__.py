"""Clustering: base files merged and sorted anew."""
