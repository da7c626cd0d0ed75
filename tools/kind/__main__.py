"""Podium in a kind cluster, from a checkout to ready: `make kind`, or `python -m tools.kind --help`.

Existing clusters are reused, so a second run loads a changed image into the same cluster. Each program
reports its own failures; this one names the missing program, or the failed step.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from tools.devcluster.controlplane.releases import NEWEST, RELEASES
from tools.kind import config

from podium.api.groups import RESERVED
from podium.errors import PodiumError

ROOT = Path(__file__).parents[2]
_IMAGE = "podium:dev"  # The value in manifests/overlays/kind.
_NAMESPACE = "podium-system"
_DEPLOYMENTS = ("deployment/podium-webhook", "deployment/podium-controller", "deployment/podium-scheduler")
_PROGRAMS = {
    "docker": "builds the image and runs the nodes",
    "kind": "makes the cluster (kind.sigs.k8s.io)",
    "kubectl": "applies the manifests",
}


def build() -> None:
    """Build the image of this checkout."""
    _need("docker")
    _run("docker", "build", "--tag", _IMAGE, str(ROOT))


def cluster(name: str, minor: str, image: str) -> None:
    """Create the cluster if it does not exist, load image and manifests, and wait until they run."""
    _need(*_PROGRAMS)
    build()
    new = name not in _clusters()
    if new:
        asked = config.configuration(RELEASES[minor])
        chosen = image or config.image(RELEASES[minor])
        _run(
            *("kind", "create", "cluster", "--name", name, "--image", chosen),
            *("--wait", "5m", "--config", "-"),
            stdin=asked,
        )
    _run("kind", "load", "docker-image", _IMAGE, "--name", name)
    kubectl = ("kubectl", "--context", f"kind-{name}")
    _run(*kubectl, "taint", "nodes", "--overwrite", "--selector", RESERVED, config.TAINT)
    _run(*kubectl, "apply", "--server-side", "-k", str(ROOT / "manifests" / "overlays" / "kind"))
    rollout = (*kubectl, "--namespace", _NAMESPACE, "rollout")
    if not new:  # the tag stays the same when the image changes
        _run(*rollout, "restart", *_DEPLOYMENTS)
    for deployment in _DEPLOYMENTS:
        _run(*rollout, "status", "--timeout", "5m", deployment)


def _need(*programs: str) -> None:
    missing = [
        f"{program}, which {_PROGRAMS[program]}" for program in programs if shutil.which(program) is None
    ]
    if missing:
        raise PodiumError(f"missing on the PATH: {'; '.join(missing)}")


def _clusters() -> list[str]:
    done = subprocess.run(["kind", "get", "clusters"], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split()


def _run(*line: str, stdin: str | None = None) -> None:
    subprocess.run(line, input=stdin, text=True, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make kind", description="Podium in a kind cluster.")
    parser.add_argument("--name", default="podium", help="of the cluster")
    parser.add_argument("--kubernetes", default=NEWEST.minor, choices=list(RELEASES), help="its minor")
    parser.add_argument("--image", default="", help="of its nodes; else kind's own of that release")
    parser.add_argument("--build-only", action="store_true", help="build the image and make no cluster")
    asked = parser.parse_args()
    try:
        if asked.build_only:
            build()
        else:
            cluster(asked.name, asked.kubernetes, asked.image)
    except PodiumError as error:
        sys.exit(f"{parser.prog}: {error}")
    except subprocess.CalledProcessError as error:
        done = " ".join(error.cmd)
        sys.exit(f"{parser.prog}: `{done}` ended with {error.returncode}; run it again when that is mended")


if __name__ == "__main__":
    main()
