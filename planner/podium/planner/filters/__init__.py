"""Filters and scores of nodes for pods: which nodes of a snapshot a shape of pods may use."""
