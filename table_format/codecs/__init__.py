"""Codecs: Avro and Arrow buffers, schemas as Avro text, bounded decompression, varints."""
