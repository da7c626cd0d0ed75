"""As much of Ray as the example reads."""
