"""Upstream's own table of selectors: the cases of compile_test.go that it runs as stored expressions.

Source: k8s.io/dynamic-resource-allocation/cel/compile_test.go of 1.37.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubecel import PlainDevice, SelectorCompileError, SelectorRuntimeError, compile_selector

_CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("upstream.json").read_text())


@pytest.mark.parametrize("case", _CASES, ids=[case["name"] for case in _CASES])
def test_a_case_has_the_expected_result(case: dict[str, Any]) -> None:
    device = msgspec.convert(case["device"], PlainDevice)
    if "compileError" in case:
        with pytest.raises(SelectorCompileError) as refused:
            compile_selector(case["expression"], 37)
        assert case["compileError"] in str(refused.value)
        return
    selector = compile_selector(case["expression"], 37)
    if "runtimeError" in case:
        with pytest.raises(SelectorRuntimeError) as failed:
            selector.selects(case["driver"], device)
        assert case["runtimeError"] in str(failed.value)
        return
    assert selector.selects(case["driver"], device) is case["matches"]
