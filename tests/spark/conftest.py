"""What pytest leaves out here: a script that a test starts, since `--doctest-modules` would import it."""

collect_ignore = ["unpinned_script.py"]
