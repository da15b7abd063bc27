"""Running a write's tasks, in this process or in others, and exchanging rows between them."""
