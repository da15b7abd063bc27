"""Order of rows by record key, and merging of those with the same key."""
