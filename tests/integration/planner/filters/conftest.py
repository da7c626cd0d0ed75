"""Fixture for small clusters: a few pods are moved in bulk."""

from tests.support.filters.bulk import bulk_moves_of_any_size

__all__ = ["bulk_moves_of_any_size"]
