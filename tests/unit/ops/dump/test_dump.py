"""The dump's file: its form, its safety, and that its audit equals the audit of the cluster.

The cluster here is the fake server of tests/support/connection, which serves a dump of a real one;
test_servers.py uses real servers.
"""

import asyncio
import gzip
import json
import os
import stat
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from click.testing import CliRunner, Result
from tests.support.connection.fake import Answer, Fake, page, serving, status
from tests.support.dump import AUDIT_SCHEMA, anonymous

from podium.api.events import EVENT_READS
from podium.api.findings import group_of
from podium.api.reads import READS
from podium.api.schedulable import SCHEDULING_READS
from podium.cli.commands.audit import command as audit
from podium.cli.commands.dump import command as dump
from podium.cli.kubeoptions import KubeOptions
from podium.cli.live import read_live
from podium.errors import PodiumError
from podium.ops.dump import MOST_EVENTS, DumpRecorder, lines, write
from podium.ops.share import pseudonyms
from podium.ops.sharedfields import TELLING

ROOT = Path(__file__).parents[4]
EXAMPLE = ROOT / "examples" / "training-1.36.json.gz"
PAGE = (ROOT / "docs" / "dump.md").read_text(encoding="utf-8")


@cache
def _items() -> dict[tuple[str, str], list[dict[str, Any]]]:
    kinds: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for item in json.loads(gzip.decompress(EXAMPLE.read_bytes()))["items"]:
        kinds.setdefault((item["apiVersion"], item["kind"]), []).append(item)
    return kinds


def _answer(kind: str, items: list[dict[str, Any]]) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        _, _, namespace = request.path.partition("/namespaces/")
        wanted = namespace.partition("/")[0]
        found = [item for item in items if not wanted or item["metadata"].get("namespace") == wanted]
        return page(kind, found)

    return answer


@pytest.fixture
async def fake() -> AsyncIterator[Fake]:
    """Yield a server with the objects of the example's cluster."""
    server = Fake()
    server.resources = {}
    for (api_version, kind), items in _items().items():
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        plural = READS[api_version, kind].plural
        namespaced = "namespace" in items[0]["metadata"]
        server.resources.setdefault(root, []).append((plural, kind, namespaced))
        server.answers[f"{root}/{plural}"] = _answer(kind, items)
        for namespace in {item["metadata"].get("namespace") for item in items}:
            server.answers[f"{root}/namespaces/{namespace}/{plural}"] = _answer(kind, items)
    async with serving(server):
        yield server


async def _run(command: Any, *arguments: str | Path) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, command, [str(each) for each in arguments])


async def _reports(fake: Fake, folder: Path, *scope: str, flags: tuple[str, ...] = ()) -> tuple[Any, Any]:
    """The audit of the cluster, and the audit of a dump of it."""
    config = fake.kubeconfig(folder)
    live = await _run(audit, "--kubeconfig", config, *scope, "-o", "json")
    path = folder / "dump.json.gz"
    done = await _run(dump, "--kubeconfig", config, *scope, "--output-file", path, *flags)
    assert (done.exit_code, done.stdout) == (0, "")
    offline = await _run(audit, "-f", path, "-o", "json")
    assert live.exit_code == offline.exit_code
    assert live.exception is None or isinstance(live.exception, SystemExit)
    return json.loads(live.stdout), json.loads(offline.stdout)


@pytest.mark.parametrize("scope", [("-A",), ("-n", "team-vision")], ids=["all namespaces", "one namespace"])
async def test_the_audit_of_the_dump_is_the_audit_of_the_cluster(
    fake: Fake, tmp_path: Path, scope: tuple[str, ...]
) -> None:
    """The reports are equal: findings, groups, what was not checked and why, and the version."""
    live, offline = await _reports(fake, tmp_path, *scope)
    assert live["findings"]
    assert live["summary"]["notChecked"]
    assert live == offline


async def test_with_a_kind_forbidden_too(fake: Fake, tmp_path: Path) -> None:
    """The dump has the reason why it is absent."""

    async def refuse(_: web.Request) -> web.StreamResponse:
        return status(403, "Forbidden", "no")

    fake.answers["/apis/batch/v1/jobs"] = refuse
    live, offline = await _reports(fake, tmp_path, "-A")
    assert "missing permission: list jobs" in json.dumps(live["summary"]["notChecked"])
    assert live == offline


async def test_with_pseudonyms_the_audit_is_the_same_up_to_names(fake: Fake, tmp_path: Path) -> None:
    """The rules, kinds, fields, numbers, and groups by size and priorities are equal."""
    live, offline = await _reports(fake, tmp_path, "-A", flags=("--pseudonyms",))
    assert live.keys() >= AUDIT_SCHEMA
    assert anonymous(live) == anonymous(offline)


async def test_with_pseudonyms_no_name_of_the_cluster_is_in_the_file(fake: Fake, tmp_path: Path) -> None:
    """Names of objects, namespaces, classes and nodes are replaced, and the values that refer to them."""
    path = tmp_path / "d.json"
    await _run(dump, "--kubeconfig", fake.kubeconfig(tmp_path), "-A", "--output-file", path, "--pseudonyms")
    text = path.read_text()
    names = {
        name
        for items in _items().values()
        for item in items
        for name in (item["metadata"]["name"], item["metadata"].get("namespace", "default"))
    }
    kept = {"default", "kube-system", "system-cluster-critical", "system-node-critical"}
    leaked = {name for name in names - kept if (name if len(name) > 5 else f'"{name}"') in text}
    assert len(names) > 400
    assert leaked == set()


async def test_two_dumps_have_no_pseudonym_in_common(fake: Fake, tmp_path: Path) -> None:
    """Each dump makes its own key and stores it nowhere."""
    texts = []
    for name in ("a.json", "b.json"):
        await _run(
            dump,
            "--kubeconfig",
            fake.kubeconfig(tmp_path),
            "-A",
            "--output-file",
            tmp_path / name,
            "--pseudonyms",
        )
        texts.append(json.loads((tmp_path / name).read_text()))
    first, second = ({item["metadata"]["name"] for item in text["items"][1]["items"]} for text in texts)
    assert len(first) > 100
    assert first & second == set()


async def test_the_file_is_a_list_of_typed_lists(fake: Fake, tmp_path: Path) -> None:
    """The dump has every served kind, empty ones too, below its header; one object a line."""

    async def empty(_: web.Request) -> web.StreamResponse:
        return page("Job", [])

    fake.answers["/apis/batch/v1/jobs"] = empty
    path = tmp_path / "d.json"
    done = await _run(dump, "--kubeconfig", fake.kubeconfig(tmp_path), "-A", "--output-file", path)
    whole = json.loads(path.read_text())
    assert (whole["apiVersion"], whole["kind"]) == ("v1", "List")
    info, *lists = whole["items"]
    missing = [
        "CompositePodGroup", "KueueWorkload", "ForeignPodGroup", "Namespace", "PersistentVolumeClaim",
        "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment",
        "ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice",
    ]  # fmt: skip
    labels = info.pop("labels")
    assert {"job-name", "app"} < set(labels)
    assert info == {
        "apiVersion": "cli.podium.dev/v1",
        "kind": "ClusterInfo",
        "server": "v1.37.0",
        "namespace": "",
        "selector": "",
        "unread": dict.fromkeys(missing, "not served by this cluster"),
        "scheduling": True,
        "storage": True,
        "devices": True,
        "scheduler": None,
    }
    counts = {(each["apiVersion"], each["kind"]): len(each["items"]) for each in lists}
    assert counts == {
        (api_version, f"{kind}List"): len(items) if kind != "Job" else 0
        for (api_version, kind), items in _items().items()
    }
    assert len(path.read_text().splitlines()) == sum(counts.values()) + 2 * len(lists) + 3
    assert "236 pods" in done.stderr
    assert "podium: not included: KueueWorkload: not served by this cluster\n" in done.stderr


async def _record(fake: Fake, folder: Path) -> tuple[DumpRecorder, Any]:
    options = KubeOptions(kubeconfig=fake.kubeconfig(folder), namespace="team-vision")
    return await asyncio.to_thread(read_live, options, DumpRecorder)


async def test_a_dump_says_its_namespace_by_its_pseudonym(fake: Fake, tmp_path: Path) -> None:
    """The pseudonym is in the scope and in the missing permissions."""

    async def refuse(_: web.Request) -> web.StreamResponse:
        return status(403, "Forbidden", "no")

    fake.answers["/apis/batch/v1/namespaces/team-vision/jobs"] = refuse
    recorder, info = await _record(fake, tmp_path)
    rename = pseudonyms(b"key")
    write(tmp_path / "d.json", lines(recorder, info, rename))
    text = (tmp_path / "d.json").read_text()
    assert "team-vision" not in text
    header = json.loads(text)["items"][0]
    assert header["namespace"] == rename("team-vision")
    assert header["unread"]["Owner"].endswith(f"in namespace {rename('team-vision')}")


async def test_the_file_is_its_owners_alone_and_the_same_each_time(fake: Fake, tmp_path: Path) -> None:
    """The file has mode 0600; gzip has no name and time; nothing else is left in the folder."""
    recorder, info = await _record(fake, tmp_path)
    folder = tmp_path / "out"
    folder.mkdir()
    for name in ("a.json.gz", "b.json.gz", "c.json"):
        write(folder / name, lines(recorder, info, None))
    assert sorted(each.name for each in folder.iterdir()) == ["a.json.gz", "b.json.gz", "c.json"]
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o600}
    packed = (folder / "a.json.gz").read_bytes()
    assert packed == (folder / "b.json.gz").read_bytes()
    assert gzip.decompress(packed) == (folder / "c.json").read_bytes()


async def test_a_dump_that_fails_leaves_the_old_file(fake: Fake, tmp_path: Path) -> None:
    """A failed dump must not replace a complete one."""
    folder = tmp_path / "out"
    folder.mkdir()
    path = folder / "d.json"
    path.write_text("old")
    recorder, info = await _record(fake, tmp_path)

    def fail(name: str) -> str:
        raise RuntimeError(name)

    with pytest.raises(RuntimeError):
        write(path, lines(recorder, info, fail))
    assert path.read_text() == "old"
    assert [each.name for each in folder.iterdir()] == ["d.json"]


async def test_a_folder_that_is_not_there(fake: Fake, tmp_path: Path) -> None:
    recorder, info = await _record(fake, tmp_path)
    path = tmp_path / "missing" / "d.json"
    with pytest.raises(PodiumError) as refused:
        write(path, lines(recorder, info, None))
    assert str(refused.value) == f"{path}: write failed: No such file or directory"


async def test_reading_that_fails_writes_nothing(fake: Fake, tmp_path: Path) -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        return status(500, "InternalError", "etcd is gone")

    fake.answers["/api/v1/nodes"] = refuse
    path = tmp_path / "d.json"
    done = await _run(dump, "--kubeconfig", fake.kubeconfig(tmp_path), "-A", "--output-file", path)
    assert isinstance(done.exception, PodiumError)
    assert not path.exists()


async def test_a_pipe_is_written_to_and_stays_a_pipe(fake: Fake, tmp_path: Path) -> None:
    """A dump to a device must not replace it by a file."""
    recorder, info = await _record(fake, tmp_path)
    pipe, plain = tmp_path / "pipe", tmp_path / "plain.json"
    os.mkfifo(pipe)
    write(plain, lines(recorder, info, None))
    read, _ = await asyncio.gather(
        asyncio.to_thread(pipe.read_bytes), asyncio.to_thread(write, pipe, lines(recorder, info, None))
    )
    assert read == plain.read_bytes()
    assert pipe.is_fifo()


def _contents(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


async def test_without_a_file_it_is_standard_output(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`podium dump | podium audit -f -`: stdout has the dump only, and no file is written."""
    monkeypatch.chdir(tmp_path)
    done = await _run(dump, "--kubeconfig", fake.kubeconfig(tmp_path), "-A")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["kind"] == "List"
    assert _contents(tmp_path) == ["kubeconfig"]


def test_the_page_says_which_events() -> None:
    """The page has the number of events and the reasons that are kept."""
    assert f"at most the newest {MOST_EVENTS:,}" in PAGE
    assert all(each in PAGE for each in TELLING)


def test_the_rights_that_are_documented_are_those_of_the_reads() -> None:
    """The ClusterRole of docs/dump.md has get and list of every kind and of the scheduler's file only."""
    role = yaml.safe_load(PAGE.partition("```yaml\n")[2].partition("```")[0])
    granted = {
        (group, resource)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    reads = {(group_of(api_version), read.plural) for (api_version, _), read in SCHEDULING_READS.items()}
    assert granted == reads | {("", "configmaps")}
    for rule in role["rules"]:
        named = rule.get("resourceNames")
        assert rule["verbs"] == (["get", "list"] if named is None else ["get"])
        assert (named == ["podium-scheduler"]) is (rule["resources"] == ["configmaps"])


def _event(number: int, reason: str = "Preempted", kind: str = "Pod") -> dict[str, Any]:
    return {
        "metadata": {"name": f"e{number}", "namespace": "team-vision"},
        "involvedObject": {
            "kind": kind,
            "namespace": "team-vision",
            "name": f"p{number}",
            "uid": str(number),
        },
        "reason": reason,
        "message": f"Preempted by pod x on node n{number}",
        "firstTimestamp": f"2026-01-01T00:00:{number:02}Z",
    }


@pytest.fixture
def with_past(fake: Fake) -> Fake:
    """Return a server that has events and records too."""
    records = "/apis/scheduling.podium.dev/v1beta1"
    fake.resources["/api/v1"].append(("events", "Event", True))
    fake.resources.setdefault(records, []).append(("preemptionrecords", "PreemptionRecord", True))
    events = [_event(2), _event(3, "Evicted"), _event(1), _event(4, "Pulled"), _event(5, "Evicted", "Node")]
    for namespace in ("", "/namespaces/team-vision"):
        fake.answers[f"/api/v1{namespace}/events"] = _answer("Event", events)
        fake.answers[f"{records}{namespace}/preemptionrecords"] = _answer("PreemptionRecord", [])
    return fake


async def _dumped(fake: Fake, folder: Path, *arguments: str) -> tuple[Any, Result]:
    path = folder / "past.json"
    done = await _run(
        dump, "--kubeconfig", fake.kubeconfig(folder), "--output-file", path, "--events", *arguments
    )
    return json.loads(path.read_text())["items"], done


async def test_the_past_is_events_of_evictions_and_records(with_past: Fake, tmp_path: Path) -> None:
    """The dump has the events of pods and groups; no command reads others, and an audit skips all of them."""
    (info, *lists), _ = await _dumped(with_past, tmp_path, "-A")
    by_kind = {each["kind"]: each["items"] for each in lists}
    assert [each["metadata"]["name"] for each in by_kind["EventList"]] == ["e2", "e3", "e1"]
    assert by_kind["PreemptionRecordList"] == []
    assert not {"Event", "PreemptionRecord"} & set(info["unread"])
    done = await _run(audit, "-f", tmp_path / "past.json", "--strict", "-o", "json")
    assert json.loads(done.stdout)["summary"]["skipped"] == {}


async def test_of_one_namespace_the_records_are_not_all(with_past: Fake, tmp_path: Path) -> None:
    """The records are in Podium's own namespace, and the dump names it."""
    (info, *_), done = await _dumped(with_past, tmp_path, "-n", "team-vision")
    why = "only those in namespace team-vision were read"
    assert info["unread"]["PreemptionRecord"] == why
    assert f"podium: not included: PreemptionRecord: {why}\n" in done.stderr
    (info, *_), _ = await _dumped(with_past, tmp_path, "-n", "team-vision", "--pseudonyms")
    assert "team-vision" not in json.dumps(info)


async def test_of_many_events_the_newest_are_kept(with_past: Fake, tmp_path: Path) -> None:
    options = KubeOptions(kubeconfig=with_past.kubeconfig(tmp_path), all_namespaces=True)
    recorder, info = await asyncio.to_thread(read_live, options, DumpRecorder, EVENT_READS)
    assert recorder.limit(info, 3) == info
    limited = recorder.limit(info, 2)
    assert limited.unread == {"Event": "only the newest 2 of 3 eviction events"}
    ((_, events),) = recorder.objects.items()
    assert [each.metadata.name for each in events] == ["e2", "e3"]


async def test_events_are_not_selected_by_labels(fake: Fake, tmp_path: Path) -> None:
    done = await _run(dump, "-l", "a=b", "--events", "--output-file", tmp_path / "d.json")
    assert (done.exit_code, fake.requests) == (2, [])
    assert "--events excludes -l" in done.stderr
