"""What narrows a plan, one file a stage; `catalog.planner.STAGES` is their order."""
