"""What threads share: caches, workers, tables whose storage hangs."""
