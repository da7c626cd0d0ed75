"""The history of preemptions, which people read."""
