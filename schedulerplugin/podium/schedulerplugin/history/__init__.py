"""The history of preemptions for people, and the shadow that plans for pods of other schedulers."""
