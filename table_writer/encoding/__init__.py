"""What the writer encodes: base files, and for the metadata table Avro records by columns, HFiles and log blocks."""
