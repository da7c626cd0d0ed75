"""A loop that saves its work when the scheduler asks for it, and goes on until it is stopped.

The request is an annotation of its own pod, which it reads in a file of a downward-API volume.
"""

import json
import os
import signal
import ssl
import sys
import time
import urllib.request
from datetime import UTC, datetime

ASKED = "scheduling.podium.dev/save-requested="
ANNOTATIONS = os.environ.get("ANNOTATIONS", "/etc/podinfo/annotations")
FILE = os.environ.get("CHECKPOINT", "checkpoint.json")
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def request():
    """Return the line of the request, which has its time; an empty text without one."""
    with open(ANNOTATIONS) as file:
        return next((line for line in file if line.startswith(ASKED)), "")


def report():
    """Say that the work is saved, so that the eviction waits no longer. The pod's account needs the right."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    if host is None:
        return
    with open(f"{ACCOUNT}/token") as token, open(f"{ACCOUNT}/namespace") as namespace:
        path = f"/api/v1/namespaces/{namespace.read()}/pods/{os.environ['HOSTNAME']}"
        headers = {"Authorization": f"Bearer {token.read()}", "Content-Type": "application/merge-patch+json"}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {"metadata": {"annotations": {"scheduling.podium.dev/checkpointed-at": now}}}
    url = f"https://{host}:{os.environ['KUBERNETES_SERVICE_PORT']}{path}"
    patch = urllib.request.Request(url, json.dumps(body).encode(), headers, method="PATCH")
    urllib.request.urlopen(patch, context=ssl.create_default_context(cafile=f"{ACCOUNT}/ca.crt"))


def train():
    # Without a handler the first process of a container ignores the signal until it is killed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    step = 0
    if os.path.exists(FILE):
        with open(FILE) as file:
            step = json.load(file)["step"]
    print(f"begins at step {step}", flush=True)

    while step < 1_000_000_000:
        step += 1
        if asked := request():
            with open(f"{FILE}.new", "w") as file:
                json.dump({"step": step}, file)
            os.replace(f"{FILE}.new", FILE)
            report()
            print(f"saved step {step}", flush=True)
            # Steps after the save would be lost. The request is taken back if the pod may go on.
            while request() == asked:
                time.sleep(0.1)


if __name__ == "__main__":
    train()
