"""HFile version 3, the sorted key-value file of Hudi's metadata table: reader and writer over whole columns."""
