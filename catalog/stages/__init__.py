"""What narrows a plan, one file a stage; `catalog.stages.order` is their order."""
