"""Tagging."""
