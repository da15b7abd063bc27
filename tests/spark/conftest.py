"""What pytest leaves out here: scripts that tests start, since `--doctest-modules` would import it."""

collect_ignore = ["executors_script.py", "unpinned_script.py"]
