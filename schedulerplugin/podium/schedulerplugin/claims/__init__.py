"""Unbound claims of classes with WaitForFirstConsumer: which volumes they get, and on which nodes."""
