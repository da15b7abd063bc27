"""Real engines as local processes: fetched from the package registries, started, queried, stopped."""
