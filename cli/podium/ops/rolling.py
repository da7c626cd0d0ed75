"""Read what explains a rollout: its ReplicaSets, pods and Events, and the last log lines of its containers.

A user may lack the right to read any of these, and the kubelet that has a log may not answer. Then the
rollout is followed without it, and the report says what was not read and why.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from podium.errors import PodiumError
from podium.kube.connection import Connection
from podium.kube.reading import decode
from podium.kube.timeouts import within
from podium.ops.doctor.facts import SAMPLE, WARNINGS
from podium.ops.rollout import ContainerLog, Document, Rollout, rollout
from podium.text import cut

# The maximum numbers of causes and of logs that are reported. The replicas of a Deployment fail alike.
_CAUSES = 5
_LOGS = 2
# The last lines of a log that are reported, and the maximum length of each in bytes.
_LINES = 10
_LONGEST = 500
# Maximum length of the last lines in bytes.
_LOG_BYTES = 32_000
# The API server gives up later on a kubelet that does not answer.
_LOG_SECONDS = 10.0


class RolloutReport(NamedTuple):
    """The state of a rollout, the pods of its Deployment, and a line for each list that was not read."""

    namespace: str
    state: Rollout
    pods: Sequence[Document]
    unread: Sequence[str]


# The report of an object that depends on no Deployment.
NO_ROLLOUT = RolloutReport("", Rollout("", ()), (), ())


async def read_rollout(connection: Connection, deployment: Document) -> RolloutReport:
    """Return the state of a Deployment that was just read."""
    namespace = deployment["metadata"]["namespace"]
    unread: list[str] = []

    async def listed(root: str, resource: str, **query: str) -> list[Document]:
        path = f"{root}/namespaces/{quote(namespace, safe='')}/{resource}"
        try:
            answer = decode(await connection.get(path, limit=str(SAMPLE), **query), dict[str, Any])
        except PodiumError as error:
            unread.append(f"{resource} not read: {error}")
            return []
        return list(answer["items"])

    labels = deployment["spec"]["selector"]["matchLabels"]
    selector = ",".join(f"{name}={value}" for name, value in labels.items())
    replica_sets = await listed("/apis/apps/v1", "replicasets", labelSelector=selector)
    pods = await listed("/api/v1", "pods", labelSelector=selector)
    events = await listed("/api/v1", "events", fieldSelector=WARNINGS)
    return RolloutReport(namespace, rollout(deployment, replica_sets, pods, events), pods, unread)


async def evidence(connection: Connection, report: RolloutReport) -> list[str]:
    """Return lines with every cause of a rollout, and the logs that explain them.

    If no cause is known, the logs of running pods may tell one.
    """
    causes = report.state.causes
    logs = [each.log for each in causes] if causes else list(map(_log, report.pods))
    lines = [str(each) for each in causes[:_CAUSES]] + list(report.unread)
    for log in list(dict.fromkeys(filter(None, logs)))[:_LOGS]:
        lines += await log_lines(connection, report.namespace, log)
    return lines


def _log(pod: Document) -> ContainerLog | None:
    """Return the log of the first container of a running pod."""
    name = pod["spec"]["containers"][0]["name"]
    running = (pod.get("status") or {}).get("phase") == "Running"
    return ContainerLog(pod["metadata"]["name"], name) if running else None


async def log_lines(connection: Connection, namespace: str, log: ContainerLog) -> list[str]:
    """Return the last lines of a log with a title, or one line that says why there are none."""
    query = {"container": log.container, "tailLines": str(_LINES), "limitBytes": str(_LOG_BYTES)}
    query |= {"previous": "true"} if log.previous else {}
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(log.pod, safe='')}/log"
    title = f"log of pod {log.pod}, container {log.container}{', before its restart' if log.previous else ''}"
    try:
        reply = await within(_LOG_SECONDS, connection.answer("GET", f"{path}?{urlencode(query)}"))
    except TimeoutError:
        return [f"{title}: not read: no answer within {_LOG_SECONDS:.0f} s"]
    except PodiumError as error:
        return [f"{title}: not read: {error}"]
    if reply.code != 200:
        return [f"{title}: not read: {reply.message or reply.code}"]
    lines = reply.body.decode(errors="replace").splitlines()
    if not lines:
        return [f"{title}: empty"]
    return [f"{title}, last lines:", *(f"  {cut(line, _LONGEST)}" for line in lines[-_LINES:])]
