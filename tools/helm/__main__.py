"""`python -m tools.helm ARGUMENTS` runs Helm, built once from its Go module into podium's cache.

Debian has no package of Helm, and a downloaded program would not be pinned by a hash of this repository.
"""

import subprocess
import sys

from tools.helm.program import HELM

from podium.errors import PodiumError

if __name__ == "__main__":
    try:
        sys.exit(subprocess.run([HELM.programs() / "helm", *sys.argv[1:]], check=False).returncode)
    except PodiumError as error:
        sys.exit(f"helm: {error}")
