"""Table services that do not write rows: cleaning, savepoints, finding orphans, and taking writes back."""
