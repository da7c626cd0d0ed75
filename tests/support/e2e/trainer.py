"""A small trainer for a pod of Podium's image: `trainer.py FOLDER WAY`; it goes on from its last save.

The way is `termination` (it saves at SIGTERM), `notice` (when the scheduler asks) or `never`. The folder has
the number of the last step that was done, and that of the last one that was saved.
"""

import json
import os
import signal
import ssl
import sys
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

_STEP_SECONDS = 0.25
_ANNOTATIONS = Path("/etc/podinfo/annotations")
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def main(folder: Path, way: str) -> None:
    """Train until SIGTERM."""
    ended: list[int] = []
    # Without a handler the first process of a container ignores the signal.
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    folder.mkdir(exist_ok=True)
    done, saved = folder / "done", folder / "saved"
    step = int(saved.read_text()) if saved.exists() else 0
    while not ended:
        time.sleep(_STEP_SECONDS)
        step += 1
        _write(done, step)
        if way == "notice" and (request := _request()):
            _write(saved, step)
            _report()
            # Steps after the save would be lost. The request is taken back if the pod may go on.
            while _request() == request and not ended:
                time.sleep(0.05)
    if way == "termination":
        _write(saved, step)


def _request() -> str:
    """Return the line of the request, which has its time; an empty text without one."""
    lines = _ANNOTATIONS.read_text().splitlines()
    return next((line for line in lines if line.startswith("scheduling.podium.dev/save-requested=")), "")


def _write(file: Path, step: int) -> None:
    draft = file.with_suffix(".new")
    draft.write_text(str(step))
    draft.replace(file)


def _report() -> None:
    """Say that the work is saved."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    namespace = (_ACCOUNT / "namespace").read_text()
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    request = urllib.request.Request(
        f"https://{host}:{port}/api/v1/namespaces/{namespace}/pods/{os.environ['HOSTNAME']}",
        json.dumps({"metadata": {"annotations": {"scheduling.podium.dev/checkpointed-at": now}}}).encode(),
        {
            "Authorization": f"Bearer {(_ACCOUNT / 'token').read_text()}",
            "Content-Type": "application/merge-patch+json",
        },
        method="PATCH",
    )
    urllib.request.urlopen(request, context=ssl.create_default_context(cafile=_ACCOUNT / "ca.crt")).close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
