"""`python -m tools.devices` builds the programs that answer questions about devices with upstream's code."""

import sys

from tools.devices.program import WITNESSES

from podium.errors import PodiumError

if __name__ == "__main__":
    try:
        for each in WITNESSES.values():
            each.programs()
    except PodiumError as error:
        sys.exit(f"devices: {error}")
