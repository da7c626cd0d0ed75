"""`python -m tools.release.version` prints `version=VERSION`, as a step of a workflow hands it on.

It needs no package. If GITHUB_REF_NAME is set, it must be the tag of this version.
"""

import os
import re
import sys
from pathlib import Path

_FILE = Path(__file__).parents[2] / "core" / "podium" / "version.py"


def main() -> None:
    match = re.search(r'^VERSION = "(.*)"$', _FILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert match, _FILE
    tag = os.environ.get("GITHUB_REF_NAME", f"v{match[1]}")
    if tag != f"v{match[1]}":
        sys.exit(f"the tag {tag} is not v{match[1]}, the version in {_FILE}")
    print(f"version={match[1]}")


if __name__ == "__main__":
    main()
