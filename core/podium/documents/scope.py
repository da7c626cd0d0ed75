"""The part of a cluster that a command reads: a namespace, and the pods that a selector matches."""

from collections import Counter
from typing import NamedTuple

from podium.api.meta import ObjectMeta
from podium.api.selectors import parse_selector
from podium.errors import PodiumUsageError
from podium.text import count, some


class Scope(NamedTuple):
    """The part of the cluster that was read; empty text means all of it.

    Cluster-scoped kinds are read whole.
    """

    namespace: str = ""
    selector: str = ""

    @property
    def partial(self) -> str:
        """Return the part that was read in words; empty if all of the cluster was read."""
        parts = []
        if self.namespace:
            parts.append(f"namespace {self.namespace}")
        if self.selector:
            parts.append(f"objects labelled {self.selector}")
        return f"{', '.join(parts)} only" if parts else ""


WHOLE = Scope()


class ScopeFilter:
    """Chooses the namespaced objects of files that are in a scope, as an API server chooses them."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._selector = parse_selector(scope.selector)
        self._kept = False
        self._left_out = Counter[str]()

    def keeps(self, metadata: ObjectMeta) -> bool:
        """Return whether a namespaced object is in the scope; it has the namespace `default` by default."""
        namespace = metadata.namespace or "default"
        kept = self._scope.namespace in ("", namespace) and self._selector.matches(metadata.labels or {})
        self._kept = self._kept or kept
        self._left_out[namespace] += not kept
        return kept

    def check(self) -> None:
        """Raise PodiumUsageError if objects were left out, and none was kept."""
        if self._kept or not self._left_out:
            return
        objects = count(self._left_out.total(), "object")
        raise PodiumUsageError(
            f"nothing is left of the input ({self._scope.partial}). "
            f"Left out: {objects} in {some(sorted(self._left_out))}"
        )
