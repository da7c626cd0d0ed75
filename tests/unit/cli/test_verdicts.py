"""Verdicts of the command line on inputs that once gave a false all-clear."""

import json
from pathlib import Path

import pytest
from tests.support.shell import run

SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
"""
EVENTS = """
apiVersion: v1
kind: EventList
items: []
"""
JOBSET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, namespace: ml}
spec:
  replicatedJobs:
  - name: driver
    template: {spec: {template: {spec: {priorityClassName: high, containers: [{name: a, image: b}]}}}}
  - name: worker
    template: {spec: {template: {spec: {priorityClassName: low, containers: [{name: a, image: b}]}}}}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [(SERVICE, "reads (skipped: 1 v1 Service). Check the path."), (EVENTS, "reads. Check the path.")],
    ids=["a kind that is not read", "an empty list"],
)
def test_an_audit_that_read_nothing_is_an_error(text: str, expected: str, tmp_path: Path) -> None:
    """A wrong path in a pipeline would otherwise look like a clean cluster."""
    (tmp_path / "input.yaml").write_text(text, "utf-8")
    done = run("podium audit -f input.yaml", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"The input has no object that the audit {expected}" in done.stderr


def test_admit_shows_each_refusal_with_its_own_field(tmp_path: Path) -> None:
    """Two templates lack their classes; the message of the verdict names the first class."""
    (tmp_path / "input.yaml").write_text(JOBSET, "utf-8")
    done = run("podium admit -f input.yaml --kubernetes 1.37", tmp_path)
    shown = " ".join(done.stdout.split())
    path = "template.spec.template.spec.priorityClassName"
    assert f"spec.replicatedJobs[0].{path}: Create the PriorityClass" in shown
    assert f"spec.replicatedJobs[1].{path}: no PriorityClass with name low was found. Create" in shown
    report = json.loads(run("podium admit -f input.yaml --kubernetes 1.37 -o json", tmp_path).stdout)
    fields = [finding["field"] for finding in report["results"][0]["findings"]]
    assert fields == [f"spec.replicatedJobs[{at}].{path}" for at in (0, 1)]
