"""The pages of a real cluster need get and list only, are up to date, and show a tenant its own objects."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from tests.support.connection.cluster import READ_ONLY, create, create_class, kubeconfig_of
from tests.support.servers import Server, exclusive
from tests.support.ui.running import serving
from tests.support.ui.tabs import enter, site_of
from tests.support.waiting import until
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.records import RECORD_VERSION
from podium.crds import definitions

pytestmark = [pytest.mark.server, pytest.mark.browser]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/{}/podgroups"
ROOM = {"cpu": "4", "memory": "8Gi", "pods": "110"}
TENANT = [
    {"apiGroups": [""], "resources": ["pods", "events", "persistentvolumeclaims"], "verbs": ["get", "list"]},
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["podgroups"], "verbs": ["get", "list"]},
]


@pytest.fixture
def alone() -> Iterator[Server]:
    """Yield a server with the test's own objects only."""
    with exclusive(RELEASES["1.37"]) as server:
        create(server, DEFINITIONS, definitions.records())
        create(server, "/api/v1/nodes", {"metadata": {"name": "n1"}, "status": {"allocatable": ROOM}})
        yield server


class Scene:
    """Make a namespace with a running group, and a pending group of higher priority that needs its room."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.name = server.new_namespace()
        self.high, self.low = create_class(server, 1000), create_class(server, 10)
        self.group("sweep", self.low)
        self.group("train", self.high)
        for number in range(2):
            self.pod(f"sweep-{number}", "sweep", self.low, nodeName="n1")
            self.pod(f"train-{number}", "train", self.high)

    def group(self, name: str, class_name: str) -> None:
        spec = {
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "disruptionMode": {"all": {}},
            "priorityClassName": class_name,
        }
        create(self.server, GROUPS.format(self.name), {"metadata": {"name": name}, "spec": spec})

    def pod(self, name: str, group: str, class_name: str, **spec: Any) -> None:
        container = {"name": "main", "image": "example.com/x", "resources": {"requests": {"cpu": "2"}}}
        body = {
            "metadata": {"name": name},
            "spec": {
                "containers": [container],
                "priorityClassName": class_name,
                "schedulingGroup": {"podGroupName": group},
                **spec,
            },
        }
        create(self.server, f"/api/v1/namespaces/{self.name}/pods", body)

    def record(self) -> None:
        """Record one preemption of the running group."""
        party = {"kind": "PodGroup", "namespace": self.name, "pods": 2}
        plan = {
            "time": "2026-11-21T08:00:00Z",
            "mode": "Enforced",
            "result": "Evicted",
            "preemptor": {**party, "name": "train", "priority": 1000},
            "units": [{**party, "name": "sweep", "priority": 10}],
            "unitCount": 1,
            "podCount": 2,
        }
        path = f"/apis/{RECORD_VERSION}/namespaces/{self.name}/preemptionrecords"
        until(lambda: self.server.request("GET", path)[0] == 200, "records are served")
        body = {"metadata": {"name": "podium-scheduler-00"}, "sequence": 1, "plans": [plan]}
        create(self.server, path, {"apiVersion": RECORD_VERSION, "kind": "PreemptionRecord", **body})


def test_a_walk_through_a_cluster(browser: Browser, alone: Server, tmp_path: Path) -> None:
    """All five pages need the rights to get and list only; a new read shows new objects."""
    scene = Scene(alone)
    scene.record()
    reader = kubeconfig_of(alone, scene.name, READ_ONLY, tmp_path)
    with serving("--kubeconfig", str(reader)) as link:
        tab = enter(browser, link)
        page = tab.page
        expect(page.locator("h1")).to_have_text("1 group waits.")
        expect(page.locator(".eyebrow")).to_contain_text("the live cluster (v1.37")
        expect(page.locator("nav .age")).to_contain_text(re.compile(r"read \d+ s ago"))
        page.get_by_role("link", name=f"{scene.name}/train", exact=True).click()
        expect(page.locator("h1")).to_contain_text("has not reported on it yet")
        expect(page.get_by_role("heading", name=f"PodGroup {scene.name}/train fits after")).to_be_visible()
        expect(page.locator(".node del")).to_have_text([f"{scene.name}/sweep-0", f"{scene.name}/sweep-1"])
        expect(page.locator("#gains ~ * tbody tr")).to_have_count(1)
        page.get_by_role("link", name="Divergences").click()
        expect(page.locator("h1")).to_have_text("No group has pods of another priority.")
        page.get_by_role("link", name="History").click()
        expect(page.locator("#plans ~ * tbody tr")).to_have_count(1)
        page.get_by_role("link", name=f"{scene.name}/sweep", exact=True).click()
        # No kubelet starts its pods.
        begun = "has nodes, and some of its pods have not started."
        expect(page.locator("h1")).to_have_text(f"PodGroup {scene.name}/sweep {begun}")
        page.get_by_role("link", name="What if").click()
        page.get_by_label("Pending group or pod").fill(f"{scene.name}/train")
        page.get_by_role("button", name="Plan").click()
        expect(page.locator("h1")).to_contain_text("fits after preemption")
        expect(page.locator("header .eyebrow")).to_contain_text("kube-scheduler 1.37 with the Workload API")
        scene.pod("late", "sweep", scene.high)
        page.get_by_role("link", name="Overview").click()
        page.get_by_role("link", name="reload").click()
        expect(page.get_by_text("diverging: 1")).to_be_visible()
        tab.in_peace(site_of(link))


def test_a_tenant_sees_their_namespace(browser: Browser, alone: Server, tmp_path: Path) -> None:
    """A tenant sees its groups, why they wait, and its missing rights; no other object."""
    scene, other = Scene(alone), Scene(alone)
    tenant = kubeconfig_of(alone, scene.name, TENANT, tmp_path, everywhere=False)
    with serving("--kubeconfig", str(tenant), "-n", scene.name) as link:
        tab = enter(browser, link)
        page = tab.page
        expect(page.locator("h1")).to_have_text("1 group waits.")
        expect(page.locator(".caution")).to_contain_text("Node: missing permission: list nodes")
        page.get_by_role("link", name=f"{scene.name}/train", exact=True).click()
        expect(page.get_by_text("plan not made: the input holds namespace")).to_be_visible()
        page.goto(f"/whatif?target={scene.name}/train")
        expect(page.get_by_role("alert")).to_contain_text("a plan needs all pods of the cluster")
        page.get_by_role("link", name="History").click()
        expect(page.locator(".caution")).to_contain_text("missing permission: list preemptionrecords")
        assert other.name not in page.content()
        tab.in_peace(site_of(link))
    with serving("--kubeconfig", str(tenant)) as link:
        page = browser.new_page()
        page.goto(link)
        expect(page.locator("h1")).to_contain_text(
            "Pods of all namespaces cannot be read: missing permission"
        )
