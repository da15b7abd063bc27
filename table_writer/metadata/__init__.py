"""The metadata table as commits write it: file listing, column statistics, record index."""
