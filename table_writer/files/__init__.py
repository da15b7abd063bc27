"""New versions of base files, written whole, and what a commit records of them."""
