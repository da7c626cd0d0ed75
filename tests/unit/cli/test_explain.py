"""`podium explain` has every rule of the tables and every term of the glossary."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from podium.audit.table import RULES
from podium.cli.main import command
from podium.errors import PodiumUsageError
from podium.rules.table import ADMISSION_RULES

GLOSSARY = Path(__file__).parents[3] / "docs" / "glossary.md"
# The rows of its tables, without headers.
TERMS = re.findall(r"^\| ([a-z][^|]+) \|", GLOSSARY.read_text("utf-8"), re.MULTILINE)


def explain(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["explain", *arguments])


def entries(*arguments: str) -> list[dict[str, Any]]:
    done = explain(*arguments, "-o", "json")
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)["entries"]
    return found


def test_the_list_has_all_rules_and_terms() -> None:
    listed = entries()
    assert [each["name"] for each in listed if each["kind"] == "audit rule"] == [rule.id for rule in RULES]
    assert {rule.id for rule in ADMISSION_RULES} <= {
        each["name"] for each in listed if each["kind"] == "admission rule"
    }
    assert [each["name"] for each in listed if each["kind"] == "term"] == TERMS
    assert all(each["title"] and each["page"] for each in listed)
    text = explain().output
    assert all(each["name"] in text for each in listed)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("class-missing", ["audit rule"]),
        ("Class-Missing", ["audit rule"]),
        ("metadata-name", ["admission rule"]),
        ("template-class-missing", ["audit rule", "admission rule"]),
        ("unit", ["term"]),
        ("surplus", ["term"]),
        ("gang hold", ["term"]),
    ],
)
def test_a_name_is_found_in_every_table(name: str, kinds: list[str]) -> None:
    """Case does not matter, and a row of the glossary may define two terms."""
    assert [each["kind"] for each in entries(name)] == kinds


def test_a_rule_has_its_reason_and_its_inputs() -> None:
    text = explain("class-missing").output
    rule = next(rule for rule in RULES if rule.id == "class-missing")
    assert text.startswith("class-missing (audit rule, error)\n")
    assert f"Reads: {', '.join(sorted(rule.needs))}\n" in text
    assert rule.source in " ".join(text.split())
    assert "Page: docs/rules.md#class-missing" in text


def test_an_unknown_name_is_a_usage_error_with_a_suggestion() -> None:
    done = explain("clas-missing")
    assert isinstance(done.exception, PodiumUsageError)
    assert str(done.exception) == "rule or term 'clas-missing' does not exist. Did you mean class-missing?"
