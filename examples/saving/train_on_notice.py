"""A loop that saves its work when the scheduler asks for it, and goes on until it is stopped.

The request is an annotation of its own pod, which it reads in a file of a downward-API volume.
"""

import json
import os
import ssl
import urllib.request
from datetime import UTC, datetime

ASKED = "scheduling.podium.dev/save-requested="
ANNOTATIONS = os.environ.get("ANNOTATIONS", "/etc/podinfo/annotations")
FILE = os.environ.get("CHECKPOINT", "checkpoint.json")
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def asked():
    with open(ANNOTATIONS) as file:
        return ASKED in file.read()


def report():
    """Say that the work is saved, so that the eviction waits no longer. The pod's account needs the right."""
    if "KUBERNETES_SERVICE_HOST" not in os.environ:
        return
    with open(f"{ACCOUNT}/token") as token, open(f"{ACCOUNT}/namespace") as namespace:
        path = f"/api/v1/namespaces/{namespace.read()}/pods/{os.environ['HOSTNAME']}"
        headers = {"Authorization": f"Bearer {token.read()}", "Content-Type": "application/merge-patch+json"}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {"metadata": {"annotations": {"scheduling.podium.dev/checkpointed-at": now}}}
    request = urllib.request.Request(
        f"https://kubernetes.default.svc{path}", json.dumps(body).encode(), headers, method="PATCH"
    )
    urllib.request.urlopen(request, context=ssl.create_default_context(cafile=f"{ACCOUNT}/ca.crt"))


step, saved = 0, False
if os.path.exists(FILE):
    with open(FILE) as file:
        step = json.load(file)["step"]
print(f"begins at step {step}", flush=True)

while step < 1_000_000_000:
    step += 1
    request = asked()
    if request and not saved:
        with open(f"{FILE}.new", "w") as file:
            json.dump({"step": step}, file)
        os.replace(f"{FILE}.new", FILE)
        report()
        print(f"saved step {step}", flush=True)
    # A request that is taken back may come again.
    saved = request
