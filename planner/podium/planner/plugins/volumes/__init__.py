"""The volumes of a pod: refusals for its claims, the nodes that reach them, volumes for unbound claims."""
