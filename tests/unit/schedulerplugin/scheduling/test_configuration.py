"""The fields of a SchedulerConfiguration, and those of them that a running scheduler adopts."""

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from podium.cli.commands.scheduler import source
from podium.errors import PodiumError
from podium.planner.scores import Strategy, Weights
from podium.planner.semantics import Semantics
from podium.planner.settings import (
    Budgets,
    DivergencePolicy,
    LiveSettings,
    PreemptionMode,
    Settings,
    differences,
)
from podium.schedulerplugin.live.settingsreload import Switch

KINDS = {"apiVersion": "config.podium.dev/v1", "kind": "SchedulerConfiguration"}
USUAL = LiveSettings()
ENGINE = USUAL.engine


def written(folder: Path, **fields: Any) -> str:
    """Write a file with these fields."""
    path = folder / "scheduler.yaml"
    path.write_text(json.dumps({**KINDS, **fields}), encoding="utf-8")
    return str(path)


# One field at a time: its value in the file, and the resulting settings.
FIELDS: dict[str, tuple[dict[str, Any], LiveSettings]] = {
    "nothing": ({}, USUAL),
    "schedulerName": (
        {"schedulerName": "gangs"},
        USUAL._replace(scheduler_name="gangs", engine=ENGINE._replace(evict_only="gangs")),
    ),
    "observe": ({"preemption": "observe"}, USUAL._replace(mode=PreemptionMode.OBSERVE)),
    "off": ({"preemption": "off"}, USUAL._replace(mode=PreemptionMode.OFF)),
    "rate": ({"evictionsPerMinute": 5}, USUAL._replace(evictions_a_minute=5)),
    "no rate": ({"evictionsPerMinute": None}, USUAL),
    "evict any": ({"evict": "any"}, USUAL._replace(engine=ENGINE._replace(evict_only=None))),
    "reserved": (
        {"reservedNodes": "scheduling.podium.dev/reserved=yes"},
        USUAL._replace(engine=ENGINE._replace(reserved="scheduling.podium.dev/reserved=yes")),
    ),
    "divergence": (
        {"divergencePolicy": "Hold"},
        USUAL._replace(engine=ENGINE._replace(divergence=DivergencePolicy.HOLD)),
    ),
    "semantics": (
        {"semantics": "1.37"},
        USUAL._replace(engine=ENGINE._replace(semantics=Semantics.V1_37)),
    ),
    "budgets": (
        {"budgets": "strict"},
        USUAL._replace(engine=ENGINE._replace(budgets=Budgets.STRICT)),
    ),
    "strategy": (
        {"strategy": "MostAllocated"},
        USUAL._replace(engine=ENGINE._replace(strategy=Strategy.MOST_ALLOCATED)),
    ),
    "weights": (
        {"weights": {"memory": 0, "accelerators": 9, "nvidia.com/gpu": 2}},
        USUAL._replace(
            engine=ENGINE._replace(
                weights=Weights(cpu=1, memory=0, accelerators=9, named=(("nvidia.com/gpu", 2),))
            )
        ),
    ),
    "no weights": ({"weights": {}}, USUAL),
    "preemption priority": (
        {"preemptionPriority": True},
        USUAL._replace(engine=ENGINE._replace(preemption_priority=True)),
    ),
    "pod starts": (
        {"podStartSeconds": 300},
        USUAL._replace(engine=ENGINE._replace(pod_start_seconds=300)),
    ),
    "notice": (
        {"noticeSeconds": 0},
        USUAL._replace(engine=ENGINE._replace(notice_seconds=0)),
    ),
    "hold": ({"gangHoldSeconds": 600}, USUAL._replace(gang_hold_seconds=600)),
    "binding": ({"bindTimeoutSeconds": 60}, USUAL._replace(bind_timeout_seconds=60)),
    "records": ({"recordsNamespace": "podium"}, USUAL._replace(records_namespace="podium")),
}


@pytest.mark.parametrize(("fields", "settings"), FIELDS.values(), ids=list(FIELDS))
def test_a_field(fields: dict[str, Any], settings: LiveSettings, tmp_path: Path) -> None:
    assert source(written(tmp_path, **fields)).read() == settings


def test_without_a_file() -> None:
    """By default evictions are executed, without a limit, on our own pods; a divergent group evicts none."""
    assert source(None).read() == USUAL
    assert USUAL.mode is PreemptionMode.ENFORCE
    assert USUAL.evictions_a_minute is None
    assert Settings(divergence=DivergencePolicy.NO_PREEMPTION, evict_only="podium-scheduler") == ENGINE


def test_off_as_a_person_writes_it(tmp_path: Path) -> None:
    """A YAML reader makes a boolean of `off`, which must work too."""
    path = tmp_path / "scheduler.yaml"
    lines = [f"{name}: {value}" for name, value in KINDS.items()]
    path.write_text("\n".join([*lines, "preemption: off", ""]), encoding="utf-8")
    assert source(str(path)).read().mode is PreemptionMode.OFF


# A wrong value, and the parts of the error: the field and the allowed values.
WRONG: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "unknown key": ({"preemptoin": "off"}, ("preemptoin", "Extra inputs are not permitted")),
    "unknown mode": ({"preemption": "dry-run"}, ("preemption", "'off', 'observe' or 'enforce'")),
    "on is no mode": ({"preemption": True}, ("preemption", "'off', 'observe' or 'enforce'")),
    "rate of none": ({"evictionsPerMinute": 0}, ("evictionsPerMinute", "greater than or equal to 1")),
    "a hold of two days": ({"gangHoldSeconds": 172800}, ("gangHoldSeconds", "less than or equal to 86400")),
    "a start of two days": ({"podStartSeconds": 172800}, ("podStartSeconds", "less than or equal to 86400")),
    "a notice of an hour": ({"noticeSeconds": 3600}, ("noticeSeconds", "less than or equal to 600")),
    "no time to bind": ({"bindTimeoutSeconds": 0}, ("bindTimeoutSeconds", "greater than or equal to 1")),
    "rate in words": ({"evictionsPerMinute": "5"}, ("evictionsPerMinute", "valid integer")),
    "no label": ({"reservedNodes": "a b"}, ("reservedNodes", "'a b' is not a label, KEY or KEY=VALUE")),
    "no value": ({"reservedNodes": "a=b c"}, ("reservedNodes", "is not a label")),
    "no namespace": ({"recordsNamespace": "A"}, ("recordsNamespace", "'A' is not a valid namespace")),
    "a weight of nothing known": ({"weights": {"gpu": 1}}, ("weights", "'gpu' is not one of cpu, memory")),
    "too much weight": ({"weights": {"cpu": 101}}, ("weights.cpu", "less than or equal to 100")),
    "no name": ({"schedulerName": ""}, ("schedulerName", "at least 1 character")),
    "another kind": ({"kind": "ControllerConfiguration"}, ("kind", "'SchedulerConfiguration'")),
}


@pytest.mark.parametrize(("fields", "named"), WRONG.values(), ids=list(WRONG))
def test_a_wrong_setting_is_an_error_of_one_line(
    fields: dict[str, Any], named: tuple[str, ...], tmp_path: Path
) -> None:
    path = written(tmp_path, **fields)
    with pytest.raises(PodiumError) as raised:
        source(path).read()
    line = str(raised.value)
    assert line.startswith(path)
    assert "\n" not in line
    assert [text for text in named if text not in line] == []


RATES = {"a number": (7, 7), "unlimited": ("unlimited", None), "nothing": (None, 5)}


@pytest.mark.parametrize(("flag", "rate"), RATES.values(), ids=list(RATES))
def test_the_flag_prevails_over_the_file(flag: Any, rate: int | None, tmp_path: Path) -> None:
    assert source(written(tmp_path, evictionsPerMinute=5), flag).read().evictions_a_minute == rate


def test_each_field_is_told_by_its_name(tmp_path: Path) -> None:
    """Every field of the file is compared, by its name in the file."""
    for logged, settings in FIELDS.values():
        assert differences(USUAL, settings) == tuple(name for name in logged if settings != USUAL)


class Watched:
    """A switch on a file that the test reads."""

    def __init__(self, folder: Path, **fields: Any) -> None:
        self.folder = folder
        self.logged: list[tuple[str, dict[str, Any]]] = []
        self.switch = Switch(
            source(written(folder, **fields)),
            sleep=asyncio.sleep,
            log_event=lambda what, fields: self.logged.append((what, fields)),
        )

    def write(self, **fields: Any) -> LiveSettings:
        """Change the file and read it."""
        written(self.folder, **fields)
        self.switch.look()
        return self.switch.now


def test_the_switches_act_at_once(tmp_path: Path) -> None:
    """Each change is one log event."""
    watched = Watched(tmp_path, evictionsPerMinute=5)
    assert watched.write(preemption="off", gangHoldSeconds=30, evictionsPerMinute=5) == USUAL._replace(
        mode=PreemptionMode.OFF, gang_hold_seconds=30, evictions_a_minute=5
    )
    watched.switch.look()
    assert watched.write() == USUAL
    assert watched.logged == [
        ("configuration changed", {"preemption": "off", "gangHoldSeconds": 30}),
        (
            "configuration changed",
            {"preemption": "enforce", "evictionsPerMinute": None, "gangHoldSeconds": 0},
        ),
    ]


def test_a_setting_that_needs_a_restart_is_reported_and_ignored(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    now = watched.write(preemption="observe", budgets="strict", schedulerName="other")
    assert now == USUAL._replace(mode=PreemptionMode.OBSERVE)
    assert watched.logged == [
        ("configuration changed", {"preemption": "observe"}),
        (
            "configuration not taken",
            {"error": "schedulerName, budgets: restart the scheduler to change this"},
        ),
    ]


def test_a_bad_file_changes_nothing(tmp_path: Path) -> None:
    """The log has one line; a missing file changes nothing either, and the next valid one counts."""
    watched = Watched(tmp_path, preemption="off")
    assert watched.write(preemption="of").mode is PreemptionMode.OFF
    watched.switch.look()
    (tmp_path / "scheduler.yaml").unlink()
    watched.switch.look()
    assert watched.switch.now.mode is PreemptionMode.OFF
    assert watched.write(preemption="enforce").mode is PreemptionMode.ENFORCE
    assert [what for what, _ in watched.logged] == ["configuration not taken"] * 2 + ["configuration changed"]
    assert "preemption" in watched.logged[0][1]["error"]


def test_a_file_that_a_link_swaps(tmp_path: Path) -> None:
    """A kubelet updates a ConfigMap so: a folder with the new file, and a link that is renamed."""
    for name, mode in (("one", "enforce"), ("two", "observe")):
        (tmp_path / name).mkdir()
        written(tmp_path / name, preemption=mode)
    (tmp_path / "data").symlink_to("one")
    watched = Watched(tmp_path / "data", preemption="enforce")
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").rename(tmp_path / "data")
    watched.switch.look()
    assert watched.switch.now.mode is PreemptionMode.OBSERVE


async def test_the_file_is_looked_at_every_second(tmp_path: Path) -> None:
    waits: list[float] = []
    path = written(tmp_path)
    modes = itertools.cycle(["off", "enforce"])

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) > 3:
            raise asyncio.CancelledError
        written(tmp_path, preemption=next(modes))

    logged: list[str] = []
    switch = Switch(source(path), sleep=sleep, log_event=lambda what, _: logged.append(what))
    with pytest.raises(asyncio.CancelledError):
        await switch.run()
    assert waits == [1.0] * 4
    assert logged == ["configuration changed"] * 3
