"""Bound filters over statistics, keys and rows."""
