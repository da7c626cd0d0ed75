"""An API server with tracing passes its trace to the webhook, which logs the id of the trace."""

import re
from pathlib import Path

import pytest
from tests.support.rules.scene import group
from tests.support.servers import exclusive, in_turn
from tests.support.webhooks.recorder import send
from tests.support.webhooks.running import running
from tools.devcluster.controlplane.releases import RELEASES

from podium.documents.files import folder

pytestmark = pytest.mark.server

_CONFIGURATION = """\
apiVersion: apiserver.config.k8s.io/v1
kind: TracingConfiguration
samplingRatePerMillion: 1000000
"""
_GROUPS = "/apis/scheduling.podium.dev/v1beta1/namespaces/default/podgroups"
_REFUSED = {"schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": "absent"}


@pytest.mark.parametrize("minor", in_turn(__name__))
def test_a_refusal_is_logged_with_the_trace_of_the_api_server(minor: str, tmp_path: Path) -> None:
    configuration = tmp_path / "tracing.yaml"
    configuration.write_text(_CONFIGURATION, encoding="utf-8")
    with exclusive(RELEASES[minor], apiserver=(f"--tracing-config-file={configuration}",)) as server:
        server.kubectl("apply", "--server-side", "-f", str(folder("manifests") / "crds"))
        server.kubectl("wait", "--for=condition=established", "-f", str(folder("manifests") / "crds"))
        with running(server, tmp_path / "webhook") as webhook:

            def refused() -> bool:
                return send(server, "POST", _GROUPS, group(_REFUSED, native=False)).code == 403

            webhook.until(refused, "a refusal by the webhook")
            (*_, line) = (event for event in webhook.events if event["event"] == "denied")
    assert re.fullmatch("[0-9a-f]{32}", line["trace_id"])
