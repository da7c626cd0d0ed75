"""An earlier Podium, taken from this checkout's history: its own code and manifests on our interpreter."""

import io
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest
import yaml
from tests.support.hostile.installation import Program
from tests.support.webhooks.deployed import LOCAL_URL

_ROOT = Path(__file__).parents[3]
# The commit of the earlier Podium, until a release can be installed: what ran before this one.
EARLIER = "026acef5bac54fbc5f6a696bd705a2591b89199d"
_SOURCES = ("core", "webhooks", "controllers", "planner", "schedulerplugin", "cli")
_MANIFESTS = "manifests/rendered/scheduler.yaml"
# Without `site`, so that the editable installation of this checkout is not on the path.
_SCRIPT = """#!{interpreter} -S
import os
import sys
sys.path[:0] = {path!r}
from podium.cli.main import main
from podium.webhooks import registration
class Local(registration.Endpoint, frozen=True, kw_only=True):
    def client(self, path, bundle):
        return _Endpoint(url=os.environ[{local!r}]).client(path, bundle)
_Endpoint = registration.Endpoint
if {local!r} in os.environ:
    registration.Endpoint = Local
main()
"""


def earlier(folder: Path) -> Program:
    """Return the earlier Podium, unpacked into a folder; skip the test in a checkout without history."""
    archive = ["git", "archive", EARLIER, *_SOURCES, _MANIFESTS, "docs/glossary.md"]
    packed = subprocess.run(archive, cwd=_ROOT, capture_output=True, check=False)
    if packed.returncode:
        pytest.skip(f"no earlier version in this checkout: {packed.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
        files.extractall(folder, filter="data")
    path = [*(str(folder / each) for each in _SOURCES), sysconfig.get_path("purelib")]
    script = folder / "podium"
    script.write_text(_SCRIPT.format(interpreter=sys.executable, path=path, local=LOCAL_URL), "utf-8")
    script.chmod(0o755)
    documents = yaml.load_all((folder / _MANIFESTS).read_bytes(), Loader=yaml.CSafeLoader)
    return Program(script, (str(script),), list(documents))
