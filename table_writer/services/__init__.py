"""Table services that commits run under the table lock: cleaning."""
