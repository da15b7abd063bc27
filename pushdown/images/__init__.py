"""Images: which values a function of a column has in a file, by the column's least and greatest value there."""
