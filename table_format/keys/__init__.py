"""Record keys, partition paths and buckets, as Java computes them."""
