"""The effort that a selector is charged for grows with what it does, whatever it calls.

`python -m bench effort` compares the processor time of a unit between the cases.
"""

import json
import os
import re
from pathlib import Path

import pytest
from tests.support.kubecel.effort import CASES, COMPILED, compilation, evaluation

from kubecel import PlainAttribute, PlainDevice, evaluate_devices
from kubecel.declarations import FORMATS, functions
from kubecel.times import PARTS

_EFFORTS = Path(__file__).with_name("efforts.json")
# Functions that do the same for every value, those of no value, and those like one in the table.
_SHORT = {
    *(
        "charAt",
        "dyn",
        "endsWith",
        "first",
        "getHost",
        "getHostname",
        "getScheme",
        "hasValue",
        "last",
        "minor",
    ),
    *(
        "isGlobalUnicast",
        "isLinkLocalMulticast",
        "isLinkLocalUnicast",
        "isLoopback",
        "isUnspecified",
        "masked",
    ),
    *(
        "prefixLength",
        "optional.none",
        "optional.ofNonZeroValue",
        "or",
        "value",
        "type",
        "uint",
        "add",
        "sub",
    ),
    *(
        "asInteger",
        "asApproximateFloat",
        "isGreaterThan",
        "isLessThan",
        "allowed",
        "check",
        "error",
        "errored",
    ),
    *("fieldSelector", "group", "labelSelector", "namespace", "name", "path", "reason", "resource", "patch"),
    *(
        "serviceAccount",
        "subresource",
        "sign",
        "cel.@mapInsert",
        "isSemver",
        "format.named",
        "min",
        "unwrapOpt",
    ),
    *(f"format.{name}" for name in FORMATS),
    *PARTS,
}


def test_each_case_is_charged_as_it_was_when_its_time_was_measured() -> None:
    """After an intended change run it with PODIUM_UPDATE_GOLDEN=1, then `python -m bench effort`."""
    efforts = {
        "evaluated": {name: evaluation(name)() for name in CASES},
        "compiled": {name: compilation(name)() for name in COMPILED},
    }
    if os.environ.get("PODIUM_UPDATE_GOLDEN"):
        _EFFORTS.write_text(json.dumps(efforts, indent=2) + "\n", encoding="utf-8")
    # The sort of Python 3.13 compares other pairs than that of 3.11.
    for kind, recorded in json.loads(_EFFORTS.read_text(encoding="utf-8")).items():
        assert efforts[kind] == pytest.approx(recorded, rel=0.01)


def test_preparing_a_device_takes_an_effort_of_its_size() -> None:
    versions = [PlainAttribute(version=f"1.0.0-{'1.' * 20}{number}") for number in range(1000)]
    attributes = {f"a{number}": each for number, each in enumerate(versions)}
    small, large = PlainDevice(), PlainDevice(attributes=attributes)
    efforts = [
        evaluate_devices("true", 37, "gpu.example.com", [each]).results[0].effort
        for each in (small, small, large)
    ]
    assert efforts[1] == 0
    assert efforts[2] > 10_000


def test_every_function_is_in_the_table() -> None:
    called = set(re.findall(r"[\w.]+", re.sub(r"\.(\w)", r" \1", " ".join(CASES.values()))))
    names = {name for name in {*functions(36), *functions(37)} if name[0].isalpha()} - _SHORT
    assert {name for name in names if name.rsplit(".")[-1] not in called} == set()
