"""The build's hook: the addresses of the project, in the repository PODIUM_ADDRESS, which a release sets."""

import os
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class AddressHook(MetadataHookInterface):
    """Sets the addresses by the labels that package indexes know; none without PODIUM_ADDRESS."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the field `urls` of the metadata."""
        address = os.environ.get("PODIUM_ADDRESS", "")
        paths = {
            "Homepage": "",
            "Documentation": "/blob/HEAD/docs/README.md",
            "Source": "",
            "Issues": "/issues",
            "Changelog": "/blob/HEAD/CHANGELOG.md",
        }
        metadata["urls"] = {label: address + path for label, path in paths.items()} if address else {}
