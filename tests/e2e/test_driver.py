"""The CSI driver of the tests conforms to CSI, by the suite of the project csi-test."""

import subprocess
from pathlib import Path

import pytest
from tests.e2e.conftest import Measured
from tests.support.docs.pages import ROOT
from tests.support.waiting import until
from tools.gotools import GoTools
from tools.neighbours.images import CSI_DRIVER

pytestmark = pytest.mark.e2e

_SUITE = GoTools(ROOT / "tools" / "neighbours" / "csi-sanity", ("csi-sanity",), minutes=1)
# The suite makes several volumes of 10 GiB.
_CAPACITY = 100 * 2**30


def test_the_driver_passes_the_suite_of_csi(tmp_path: Path, measured: Measured) -> None:
    """The driver mounts in a namespace of its own. The suite skips what the driver does not offer."""
    socket, data = tmp_path / "csi.sock", tmp_path / "data"
    data.mkdir()
    line = [
        *("unshare", "--mount", "--propagation=private"),
        str(CSI_DRIVER.tools.programs() / CSI_DRIVER.program),
        *("--node=node-0", f"--data={data}", f"--capacity={_CAPACITY}"),
        *(f"--socket={socket}", f"--kubelet-socket={socket}", f"--registration={tmp_path / 'reg.sock'}"),
    ]
    suite = [
        str(_SUITE.programs() / "csi-sanity"),
        *(f"-csi.endpoint={socket}", f"-csi.mountdir={tmp_path / 'mount'}"),
        *(f"-csi.stagingdir={tmp_path / 'staging'}", "-ginkgo.no-color"),
    ]
    with subprocess.Popen(line) as driver:
        try:
            until(socket.exists, "the driver listens")
            done = subprocess.run(
                suite, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
            )
        finally:
            driver.terminate()
    assert done.returncode == 0, done.stdout
    (summary,) = (each for each in done.stdout.splitlines() if " Passed | " in each)
    measured(summary)
    assert driver.returncode == 0
    assert list(data.iterdir()) == []
