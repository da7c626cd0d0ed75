"""`python -m tools.release.version` prints `version=VERSION`, as a step of a workflow hands it on.

It needs no package. If GITHUB_REF_NAME is set, it must be the tag of this version.
"""

import os
import re
import sys
from pathlib import Path

_FILE = Path(__file__).parents[2] / "core" / "podium" / "version.py"


def main() -> None:
    found = re.search(r'^VERSION = "(.*)"$', _FILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert found, _FILE
    tag = os.environ.get("GITHUB_REF_NAME", f"v{found[1]}")
    if tag != f"v{found[1]}":
        sys.exit(f"the tag {tag} is not v{found[1]}, the version in {_FILE}")
    print(f"version={found[1]}")


if __name__ == "__main__":
    main()
