"""File names and file slices, from a listing of data files."""
