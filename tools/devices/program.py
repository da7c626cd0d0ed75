"""The programs that answer questions about devices with upstream's code, one for each minor of Kubernetes."""

from pathlib import Path
from typing import Final

from tools.gotools import GoTools

FOLDER = Path(__file__).parent
NAME: Final = "device-witness"
WITNESSES: Final = {minor: GoTools(FOLDER / f"v{minor}", (NAME,), minutes=2) for minor in ("1.36", "1.37")}
