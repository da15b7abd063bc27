"""Archiving: finished instants leave the active timeline for the log files of `.hoodie/archived`."""
