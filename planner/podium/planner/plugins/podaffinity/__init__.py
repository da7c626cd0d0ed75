"""Terms of pods about other pods, as a plugin of the planner."""
