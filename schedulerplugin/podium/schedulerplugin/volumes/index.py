"""The claims, volumes and classes of a cluster, and the pods whose shapes follow them.

The shape of a pod has facts of its claims and their volumes. So a change of such an object must find the pods
that use it, without a look at all pods.
"""

from collections.abc import Collection, Iterable
from typing import TypeVar

from podium.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from podium.cluster.reader import Name

_Key = TypeVar("_Key")
_Item = TypeVar("_Item")


class Volumes:
    """Claims by (namespace, name), volumes and classes by name, and the rows of the pods that use each claim.

    `unread` are kinds of which objects may exist that are not here.
    """

    def __init__(self, unread: Collection[str] = ()) -> None:
        self.unread = unread
        self.claims: dict[Name, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self._users: dict[Name, set[int]] = {}
        self._claims_of_volume: dict[str, set[Name]] = {}

    def add_user(self, row: int, claims: Iterable[Name]) -> None:
        """Record the claims of a pod."""
        for claim in claims:
            self._users.setdefault(claim, set()).add(row)

    def remove_user(self, row: int, claims: Iterable[Name]) -> None:
        """Remove the claims of a pod."""
        for claim in set(claims):
            discard(self._users, claim, row)

    def apply_claim(self, claim: PersistentVolumeClaim, *, gone: bool) -> list[int]:
        """Apply a change of a claim; return the rows of the pods that use it."""
        key = claim.metadata.namespace or "", claim.metadata.name or ""
        before = self.claims.pop(key, None)
        if before is not None and before.spec is not None:
            discard(self._claims_of_volume, before.spec.volumeName or "", key)
        if not gone:
            self.claims[key] = claim
            if claim.spec is not None:
                self._claims_of_volume.setdefault(claim.spec.volumeName or "", set()).add(key)
        return list(self._users.get(key, ()))

    def apply_volume(self, volume: PersistentVolume, *, gone: bool) -> list[int]:
        """Apply a change of a volume; return the rows of the pods whose claims are bound to it."""
        name = volume.metadata.name or ""
        self.volumes.pop(name, None)
        if not gone:
            self.volumes[name] = volume
        return self._users_of(self._claims_of_volume.get(name, ()))

    def apply_class(self, storage_class: StorageClass, *, gone: bool) -> list[int]:
        """Apply a change of a class; return the rows of the pods with claims of it that are not bound."""
        name = storage_class.metadata.name or ""
        self.classes.pop(name, None)
        if not gone:
            self.classes[name] = storage_class
        # Classes change rarely.
        claims = (key for key, claim in self.claims.items() if claim.storage_class == name)
        return self._users_of(key for key in claims if not self.claims[key].bound)

    def _users_of(self, claims: Iterable[Name]) -> list[int]:
        return list(dict.fromkeys(row for key in claims for row in self._users.get(key, ())))


def discard(index: dict[_Key, set[_Item]], key: _Key, item: _Item) -> None:
    """Remove an item from a set of an index, and the set if it is empty then."""
    items = index[key]
    items.discard(item)
    if not items:
        del index[key]
