"""Preemption as pure functions of a snapshot: the units to evict so that a pod or group fits."""
