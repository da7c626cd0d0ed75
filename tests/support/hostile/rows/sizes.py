"""Objects that are or become large: lines of watches, reviews, numbers of elements, depths."""

import json

from tests.support.hostile.honest import NODES
from tests.support.hostile.table import Table
from tests.support.hostile.tenant import PODS, Tenant, container

from podium.api.groups import GROUP_LABEL

ROWS = Table()
# An API server writes each of these characters as six bytes.
ESCAPED = "<"
# etcd accepts 1.5 MiB; as JSON these are 7.2 MB.
_MOST = 1_200_000
# The limit of all annotations of an object.
_ANNOTATIONS = 250_000


def env(value: str) -> dict[str, object]:
    """Return a container with this value in its environment."""
    return container(env=[{"name": "A", "value": value}])


@ROWS.row
def env_of_escapes(tenant: Tenant) -> None:
    """A pod of another scheduler that is 7.2 MB in a watch."""
    tenant.pod(env(ESCAPED * _MOST), schedulerName="default-scheduler")


@ROWS.row
def env_of_escapes_to_schedule(tenant: Tenant) -> None:
    """The same for Podium's scheduler."""
    tenant.pod(env(ESCAPED * _MOST))


@ROWS.row
def env_of_escapes_on_a_node(tenant: Tenant) -> None:
    """The same on a node that others need."""
    tenant.pod(env(ESCAPED * _MOST), nodeName=NODES[0])


@ROWS.row
def five_pods_of_escapes(tenant: Tenant) -> None:
    """A page of a list of pods is 36 MB."""
    for _ in range(5):
        tenant.pod(env(ESCAPED * _MOST))


@ROWS.row
def change_of_escapes(tenant: Tenant) -> None:
    """An update, whose review has the object twice: 7.8 MB."""
    name = tenant.pod(env(ESCAPED * 650_000))
    tenant.patch(PODS, name, {"metadata": {"labels": {"a": "b"}}})


@ROWS.row
def largest_change_of_escapes(tenant: Tenant) -> None:
    """The largest possible review of an update."""
    name = tenant.pod(env(ESCAPED * _MOST))
    tenant.patch(PODS, name, {"metadata": {"labels": {"a": "b"}}})


@ROWS.row
def member_of_escapes(tenant: Tenant) -> None:
    """A member of a group: the webhook reviews members, so it reads all of it."""
    tenant.pod(env(ESCAPED * _MOST), group=tenant.group(2))


@ROWS.row
def env_of_line_separators(tenant: Tenant) -> None:
    """U+2028: three bytes in and six out, and a line break for some readers."""
    tenant.pod(env("\u2028" * 400_000))


@ROWS.row
def env_of_control_characters(tenant: Tenant) -> None:
    """NUL and other control characters, six bytes each."""
    tenant.pod(env("".join(map(chr, range(32))) * 15_000))


@ROWS.row
def annotations_of_escapes(tenant: Tenant) -> None:
    """The maximum size of annotations."""
    tenant.pod(metadata={"annotations": {"a": ESCAPED * _ANNOTATIONS}})


@ROWS.row
def annotation_of_emoji(tenant: Tenant) -> None:
    """Characters of four bytes, beyond the first plane of Unicode."""
    tenant.pod(metadata={"annotations": {"a": "\U0001f525" * (_ANNOTATIONS // 4)}})


@ROWS.row
def annotation_that_is_no_text(tenant: Tenant) -> None:
    """Bytes that are not UTF-8, and half of a surrogate pair."""
    for number, value in enumerate((b"\xff\xfe\xc3\x28", b"\\ud800", b"\\udfff\\ud800")):
        pod = {
            "metadata": {"name": tenant.name(str(number)), "annotations": {"a": "VALUE"}},
            "spec": {"containers": [env("VALUE")], "schedulerName": "podium-scheduler"},
        }
        tenant.write("POST", PODS, json.dumps(pod).encode().replace(b"VALUE", value))


@ROWS.row
def annotation_of_deep_json(tenant: Tenant) -> None:
    """An annotation with an object of 50,000 levels, as kubectl writes it."""
    deep = "[" * 50_000 + "]" * 50_000
    tenant.pod(metadata={"annotations": {"kubectl.kubernetes.io/last-applied-configuration": deep}})


@ROWS.row
def field_twice(tenant: Tenant) -> None:
    """JSON with a duplicate field, of two types."""
    text = json.dumps({"metadata": {"name": tenant.name()}, "spec": {"containers": [container()]}})
    tenant.write("POST", PODS, (text[:-1] + ',"metadata":{"labels":{"a":"b"}}}').encode())


def managed(tenant: Tenant, levels: int, group: str = "") -> str:
    """Create a pod with deeply nested JSON, in a group if one is named; return its name."""
    name = tenant.name()
    fields = '{"f:spec":' * levels + "{}" + "}" * levels
    about = '"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1"'
    entry = f'"managedFields":[{{{about},"fieldsV1":{fields}}}]'
    labels = json.dumps({GROUP_LABEL: group} if group else {})
    spec = json.dumps({"schedulerName": "podium-scheduler", "containers": [container()]})
    body = f'{{"metadata":{{"name":"{name}","labels":{labels},{entry}}},"spec":{spec}}}'
    tenant.write("POST", PODS, body.encode())
    return name


@ROWS.row
def deep_managed_fields(tenant: Tenant) -> None:
    """JSON of some hundred levels."""
    managed(tenant, 400)


@ROWS.row
def deepest_managed_fields(tenant: Tenant) -> None:
    """JSON of more levels than Python's stack has."""
    managed(tenant, 4_000)


@ROWS.row
def many_managers(tenant: Tenant) -> None:
    """Thirty managers that each apply a label."""
    name = tenant.pod()
    for number in range(30):
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {f"m{number}": "x"}}}
        path = f"{PODS}/{name}?fieldManager={'m' * 120}{number}&force=true"
        tenant.write("PATCH", path, body, kind="application/apply-patch+yaml")


@ROWS.row
def many_variables(tenant: Tenant) -> None:
    """8,000 entries of env."""
    tenant.pod(container(env=[{"name": f"A{number}", "value": "x"} for number in range(8_000)]))


@ROWS.row
def many_containers(tenant: Tenant) -> None:
    """2,000 containers with a request each."""
    amounts = {"requests": {"cpu": "1m", "memory": "1Ki"}}
    tenant.pod(*(container(f"c{number}", resources=amounts) for number in range(2_000)))


@ROWS.row
def many_init_containers(tenant: Tenant) -> None:
    """1,500 sidecars, whose requests add up one after the other."""
    amounts = {"requests": {"cpu": "1m", "memory": "1Ki"}}
    sidecars = [container(f"s{number}", resources=amounts, restartPolicy="Always") for number in range(1_500)]
    tenant.pod(initContainers=sidecars)


@ROWS.row
def many_ports(tenant: Tenant) -> None:
    """4,000 ports of the host."""
    ports = [{"containerPort": number, "hostPort": number} for number in range(1, 4_001)]
    tenant.pod(container(ports=ports))


@ROWS.row
def many_ports_on_a_node(tenant: Tenant) -> None:
    """The same ports on a node, with addresses of their own."""
    ports = [{"containerPort": n, "hostPort": n, "hostIP": f"10.{n % 250}.0.1"} for n in range(1, 3_001)]
    tenant.pod(container(ports=ports), nodeName=NODES[0])


@ROWS.row
def many_volumes(tenant: Tenant) -> None:
    """2,000 volumes."""
    tenant.pod(volumes=[{"name": f"v{number}", "emptyDir": {}} for number in range(2_000)])


@ROWS.row
def many_claims(tenant: Tenant) -> None:
    """1,500 volumes of claims that do not exist."""
    volumes = [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": f"none-{n}"}} for n in range(1_500)]
    tenant.pod(volumes=volumes)


@ROWS.row
def many_labels(tenant: Tenant) -> None:
    """4,000 labels: their number has no limit."""
    tenant.pod(metadata={"labels": {f"label-{number}": "x" * 20 for number in range(4_000)}})


@ROWS.row
def many_annotations(tenant: Tenant) -> None:
    """4,000 annotations."""
    tenant.pod(metadata={"annotations": {f"a{number}": "x" for number in range(4_000)}})


@ROWS.row
def many_owners(tenant: Tenant) -> None:
    """2,000 owners that do not exist."""
    owners = [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": f"u{number}"} for number in range(2_000)]
    tenant.pod(metadata={"ownerReferences": owners})


@ROWS.row
def owner_of_escapes(tenant: Tenant) -> None:
    """An owner's name, which has no character set and no maximum length."""
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": ESCAPED * 1_000_000,
        "uid": "u",
        "controller": True,
    }
    tenant.pod(metadata={"ownerReferences": [owner]})


@ROWS.row
def owner_of_another_world(tenant: Tenant) -> None:
    """A kind and a version of 100,000 characters."""
    owner = {
        "apiVersion": f"{'x' * 100_000}/v1",
        "kind": "K" * 100_000,
        "name": "../..",
        "uid": ESCAPED * 100,
    }
    tenant.pod(
        metadata={
            "ownerReferences": [{**owner, "controller": True}],
            "labels": {"scheduling.podium.dev/gang": "auto"},
        }
    )


@ROWS.row
def long_name(tenant: Tenant) -> None:
    """The longest name and a generateName of the same length."""
    tenant.pod(metadata={"name": f"{tenant.prefix}-{'x' * 250}"[:253], "generateName": "x" * 240})


@ROWS.row
def long_image(tenant: Tenant) -> None:
    """An image, a command and arguments of 300 KB each."""
    text = "&" * 300_000
    tenant.pod({"name": "main", "image": text, "command": [text], "args": [text]})


@ROWS.row
def many_gates(tenant: Tenant) -> None:
    """2,000 scheduling gates and as many readiness gates."""
    gates = [{"name": f"example.com/gate-{number}"} for number in range(2_000)]
    ready = [{"conditionType": f"example.com/ready-{number}"} for number in range(2_000)]
    tenant.pod(schedulingGates=gates, readinessGates=ready)


@ROWS.row
def many_addresses(tenant: Tenant) -> None:
    """Host aliases and pull secrets, 2,000 each."""
    aliases = [{"ip": f"10.0.{n // 250}.{n % 250}", "hostnames": ["a.example"]} for n in range(2_000)]
    tenant.pod(
        hostAliases=aliases, imagePullSecrets=[{"name": f"secret-{number}"} for number in range(2_000)]
    )


@ROWS.row
def schedulers_of_long_names(tenant: Tenant) -> None:
    """Schedulers that do not exist: thirty names, one of 100 KB."""
    tenant.pod(schedulerName="x" * 100_000)
    for number in range(30):
        tenant.pod(schedulerName=f"scheduler-{number}")
