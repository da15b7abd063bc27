"""Tagging: finding the file group that holds each row of a batch already, and placing new rows."""
