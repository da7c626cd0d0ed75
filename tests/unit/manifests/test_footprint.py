"""The memory limit of the webhook's container, in manifests and chart, is the sum of its limits."""

import pytest
import yaml
from tools.manifests.footprint import LIMIT_BYTES, MEMORY_BYTES

from podium.documents.files import folder
from podium.webhooks.handlers import ADMISSION, CONVERSION

MANIFESTS = folder("manifests")
UNITS = {"Mi": 1 << 20, "Gi": 1 << 30}


def in_bytes(quantity: str) -> int:
    return int(quantity[:-2]) * UNITS[quantity[-2:]]


@pytest.mark.parametrize("mode", ["admission", "scheduler"])
def test_the_manifests_have_the_limit(mode: str) -> None:
    documents = yaml.load_all(
        (MANIFESTS / "rendered" / f"{mode}.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
    )
    (container,) = [
        container
        for each in documents
        if each["kind"] == "Deployment" and each["metadata"]["name"] == "podium-webhook"
        for container in each["spec"]["template"]["spec"]["containers"]
    ]
    assert in_bytes(container["resources"]["limits"]["memory"]) == LIMIT_BYTES


def test_the_chart_has_the_limit() -> None:
    values = yaml.load((MANIFESTS / "chart" / "values.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    assert in_bytes(values["webhook"]["resources"]["limits"]["memory"]) == LIMIT_BYTES


def test_the_limit_holds_what_is_held() -> None:
    assert (
        ADMISSION.held_bytes + CONVERSION.held_bytes < MEMORY_BYTES <= LIMIT_BYTES < MEMORY_BYTES + (64 << 20)
    )
