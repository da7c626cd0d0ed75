"""Rules about pod templates: problems of their next pod, reported before it is created."""

from collections.abc import Iterator

from podium.api.findings import Severity
from podium.api.foreign import PodOwner
from podium.api.groups import Workload
from podium.api.priority import resolve
from podium.api.reads import Kind
from podium.groups.planned import made_by_people
from podium.rules.audit.survey import AuditFinding, Survey
from podium.rules.commands import create_class
from podium.rules.podiumchecks import unresolved, unresolved_message
from podium.rules.podiumrules import TEMPLATE_CLASS_MISSING, TEMPLATE_PRIORITY_UNRESOLVED
from podium.rules.rule import Rule

TEMPLATE_PRIORITY_WRITTEN = Rule(
    id="template-priority-written",
    severity=Severity.WARNING,
    title="A pod template sets `priority:` to a number",
    why="The API server computes the priority and refuses pods with another value. So the template "
    "breaks when its class is recreated or a global default is added.",
    source="kubernetes/kubernetes#102724",
    needs=frozenset({Kind.OWNER}),
)


def template_class_missing(survey: Survey) -> Iterator[AuditFinding]:
    """Find pod templates, and templates of Workloads, whose class cannot be resolved."""
    for source, field, name in _template_classes(survey):
        if resolve(survey.view.classes, name) is None:
            if survey.absent(Kind.PRIORITY_CLASS, [source.metadata]):
                message = "does not exist: the API server refuses pods and groups of this template."
                fix = f"{create_class(name, '<integer>')}; or name another class"
                remedy = f"create PriorityClass {name}, or name another class where it is named"
            else:
                message = (
                    "is not in the input. If it does not exist in the cluster, the API server refuses pods "
                    "and groups of this template."
                )
                fix = remedy = f"add PriorityClass {name} to the input, or name another class"
            yield AuditFinding(
                TEMPLATE_CLASS_MISSING.finding(source.ref, field, f"PriorityClass {name} {message}", fix),
                remedy,
            )


def template_priority_written(survey: Survey) -> Iterator[AuditFinding]:
    """Find pod templates that set the integer."""
    for owner in made_by_people(survey.view.owners):
        for path, template in owner.templates.items():
            spec = template.spec
            if spec is None or spec.priority is None:
                continue
            field = f"{owner.spec_path(path)}.priority"
            if spec.priorityClassName:
                fix = f"remove {field}: PriorityClass {spec.priorityClassName} sets the value"
            else:
                fix = f"remove {field} and name a priorityClassName"
            yield AuditFinding(
                TEMPLATE_PRIORITY_WRITTEN.finding(
                    owner.ref,
                    field,
                    f"priority {spec.priority} is set explicitly; pods are refused if the class has "
                    "another value.",
                    fix,
                ),
                "remove `priority:` from pod templates and name a priorityClassName",
            )


def template_priority_unresolved(survey: Survey) -> Iterator[AuditFinding]:
    """Find templates of Workloads whose integer no group can get."""
    for workload in survey.view.workloads.values():
        for path, template in workload.templates.items():
            value = unresolved(survey.view.classes, template.priority_class_name, template.priority)
            if value is not None:
                message = unresolved_message(template, value)
                fix = _class_fix(survey, f"{path}.priorityClassName", template.priority or 0)
                field = f"{path}.priority"
                yield AuditFinding(TEMPLATE_PRIORITY_UNRESOLVED.finding(workload.ref, field, message, fix))


def _class_fix(survey: Survey, field: str, value: int) -> str:
    """Return how to name a class of a value in a field."""
    names = sorted(name for name, each in survey.view.classes.items() if (each.value or 0) == value)
    if names:
        return f"set {field}: {names[0]}"
    return f"create a PriorityClass with value: {value} and name it in {field}"


def _template_classes(survey: Survey) -> Iterator[tuple[PodOwner | Workload, str, str]]:
    for owner in made_by_people(survey.view.owners):
        for path, template in owner.templates.items():
            if template.spec is not None and template.spec.priorityClassName:
                yield owner, f"{owner.spec_path(path)}.priorityClassName", template.spec.priorityClassName
    for workload in survey.view.workloads.values():
        for path, group in workload.templates.items():
            if group.priority_class_name:
                yield workload, f"{path}.priorityClassName", group.priority_class_name
