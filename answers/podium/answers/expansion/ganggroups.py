"""Create the groups of the gangs that pods of a file ask for, as the controller would."""

from collections.abc import Mapping
from typing import Any

from podium.answers.expansion.additions import Additions
from podium.answers.expansion.makers import uid_of
from podium.api.findings import ObjectRef
from podium.api.foreign import PodOwner
from podium.api.membership import GroupKey
from podium.api.schedulable import Schedulable
from podium.cluster.reader import name_of
from podium.groups import autogroups, autotrees


def make_gangs(
    additions: Additions,
    joined: Mapping[GroupKey, list[Schedulable]],
    owners: Mapping[ObjectRef, PodOwner],
) -> None:
    """Create the groups of pods that asked for a gang or tree, as the controller does.

    `joined` are the pods by the group that they joined; `owners` are the owners that the file adds.
    """
    below: dict[GroupKey, list[Schedulable]] = {}
    for key, pods in joined.items():
        gangs = (autogroups.gang_of(pod) for pod in pods)
        gang = max((each for each in gangs if each is not None), key=lambda each: each.root)
        owner = _owner(additions, owners, gang)
        size = autotrees.size_of(owner, gang) if owner is not None else 0
        if gang.root:
            root = GroupKey(False, key.namespace, gang.root, composite=True)
            below.setdefault(root, []).extend(pods)
        if key in additions.seen.groups or owner is None or size < 1:
            continue
        class_name = autogroups.class_of(additions.seen.classes, (pod.spec for pod in pods))
        disruption = autogroups.disruption_of(pod.metadata for pod in pods)
        _put(additions, pods[0], autotrees.leaf_of(owner, gang, class_name, disruption))
    for root, pods in below.items():
        gang_of_first = autogroups.gang_of(pods[0])
        owner = _owner(additions, owners, gang_of_first)
        class_name = autogroups.class_of(additions.seen.classes, (pod.spec for pod in pods))
        document = autotrees.root_of(owner, class_name) if owner is not None else None
        if root not in additions.seen.composites and document is not None:
            _put(additions, pods[0], document)


def _owner(
    additions: Additions, owners: Mapping[ObjectRef, PodOwner], gang: autogroups.Gang | None
) -> PodOwner | None:
    """Return the owner of a gang, of the file or the cluster."""
    if gang is None:
        return None
    return owners.get(gang.owner) or additions.state.owners.get(gang.owner)


def _put(additions: Additions, first: Schedulable, document: dict[str, Any]) -> None:
    """Add a group for pods that ask; `first` is one of them."""
    metadata = document["metadata"]
    metadata["uid"] = uid_of(document["kind"], metadata["namespace"], metadata["name"])
    source = additions.brought[name_of(first)]
    with additions.leaving_out(source.ref):
        additions.store_group(source.document, document)
