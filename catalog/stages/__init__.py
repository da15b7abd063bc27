"""Pruning stages, one per module; `catalog.planner.STAGES` is their order."""
