"""The commit protocol: transactions, conflicts, rollbacks, the creation of tables."""
