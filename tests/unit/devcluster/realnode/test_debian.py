"""The source of a node's packages: the machine's own distribution."""

from pathlib import Path

import pytest
from tools.devcluster.realnode import debian
from tools.devcluster.realnode.debian import Distribution

from podium.errors import PodiumError

_DEBIAN = 'ID=debian\nVERSION_CODENAME=bookworm\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n'
_UBUNTU = 'ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME="noble"\n'


@pytest.mark.parametrize(
    "os_release, targets, expected",
    [
        pytest.param(
            _DEBIAN,
            "http://deb.example/debian-security bookworm-security\nhttps://deb.example/debian bookworm\n",
            Distribution(
                "trixie",
                "https://deb.example/debian",
                Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
                "main",
            ),
            id="Debian: its mirror, and the suite of the image's base",
        ),
        pytest.param(
            _UBUNTU,
            "http://azure.example/ubuntu noble\n",
            Distribution(
                "noble",
                "http://azure.example/ubuntu",
                Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg"),
                "main,universe",
            ),
            id="Ubuntu: its own suite",
        ),
    ],
)
def test_the_source_of_a_machine(os_release: str, targets: str, expected: Distribution) -> None:
    assert debian.distribution(os_release, targets) == expected


@pytest.mark.parametrize(
    "os_release, targets, message",
    [
        pytest.param('ID="fedora"\n', "", "made on Debian and Ubuntu, and this is fedora", id="Fedora"),
        pytest.param(
            _DEBIAN, "https://x/apt cloud\n", "apt has no source of debian bookworm", id="no mirror"
        ),
    ],
)
def test_a_machine_without_a_source_is_refused(os_release: str, targets: str, message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        debian.distribution(os_release, targets)
