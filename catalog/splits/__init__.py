"""The files of a plan as splits for engines."""
