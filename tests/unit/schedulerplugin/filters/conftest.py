"""Small clusters: pods are moved in bulk, however few."""

from tests.support.filters.bulk import bulk_moves_of_any_size

__all__ = ["bulk_moves_of_any_size"]
