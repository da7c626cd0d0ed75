"""The scheduling queue and its decisions: pure code that returns effects as values."""
