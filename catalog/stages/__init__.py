"""Pruning stages, one a module; `catalog.planner.STAGES` is their order."""
