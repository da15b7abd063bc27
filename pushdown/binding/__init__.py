"""A filter bound to the columns of a table, as Spark casts them."""
