"""`podium convert`: rewrite groups, Workloads and their pods for another version or API.

The input is read, converted and checked completely before the first byte is written, because a truncated
manifest is worse than none.
"""

import sys
from collections.abc import Iterator

import click

from podium.api.convert import VERSIONS, ConversionNote, Converted, convert, convert_foreign
from podium.api.findings import group_of
from podium.api.foreigngroups import FOREIGN_KINDS, ForeignGroup
from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP
from podium.api.inputnotes import InputNotes
from podium.api.minors import GROUP_MINORS, minor_of
from podium.api.reads import MANIFEST_READS, Kind
from podium.api.regroup import ForeignMembers, regroup
from podium.cli import inputs, options, progress
from podium.cli.main import EXIT_FINDINGS, examples
from podium.cli.render.data import as_list
from podium.cli.render.output import Output, deliver, output_options
from podium.documents import yamledit
from podium.documents.document import Document, ReadError
from podium.documents.sources import read_documents
from podium.documents.yamlwriter import dump_all
from podium.stderr import say

_KINDS = ("PodGroup", "Workload", "CompositePodGroup")
_PROJECTS = {kind.project.lower(): kind for kind in FOREIGN_KINDS}


@click.command(
    epilog=examples(
        (
            "Convert to the version that Kubernetes 1.38 stores",
            "podium convert -f groups.yaml --to scheduling.k8s.io/v1beta1 --kubernetes 1.38",
        ),
        (
            "Convert the PodGroups of Volcano, and the pods that name them",
            "podium convert -f groups.yaml --from volcano --to scheduling.podium.dev/v1beta1",
        ),
    )
)
@inputs.file_options
@click.option(
    "--to",
    "target",
    required=True,
    type=click.Choice(list(VERSIONS)),
    metavar="GROUP/VERSION",
    help=f"Target API version: {', '.join(VERSIONS)}.",
)
@click.option(
    "--from",
    "project",
    type=click.Choice(list(_PROJECTS)),
    metavar="PROJECT",
    help=f"Convert the PodGroups of another project too: {', '.join(_PROJECTS)}.",
)
@click.option(
    "--kubernetes",
    type=options.minor_choice(minor.name for minor in GROUP_MINORS.values()),
    help="Kubernetes minor that reads the result, which decides the version of CompositePodGroups.",
)
@output_options("yaml", "json")
def command(
    files: inputs.InputFiles, target: str, project: str | None, kubernetes: str | None, output: Output
) -> None:
    """Convert PodGroups, CompositePodGroups and Workloads to another version or to the other API.

    Pods and pod templates in the same input stay members of their groups. Other objects pass unchanged. Each
    field that the target cannot carry is reported on stderr, and the exit code is then 3.
    """
    if not files.names:
        raise click.UsageError("Missing option '-f' / '--filename'. Give a file, a folder, or - for stdin.")
    notes = InputNotes()
    minor = None if kubernetes is None else minor_of(kubernetes)
    source = None if project is None else ForeignMembers(_PROJECTS[project], {})
    with progress.working("converting objects") as work:
        results = list(work.track(_results(files, notes, target, minor, source)))
    inputs.say_notes(notes)
    if source is not None:
        groups = source.project.group_kinds
        results = [
            (document, source.named(result) if (document.apiVersion, document.kind) in groups else result)
            for document, result in results
        ]
    documents = [result.document for _, result in results]
    if output.format == "yaml":
        last = len(results) - 1
        with progress.working("writing objects", len(results)) as work:
            written = [_yaml(*pair, last=number == last) for number, pair in enumerate(work.track(results))]
        text = f"---{yamledit.line_break(''.join(written[:1]))}".join(written)
    else:
        text = as_list(documents)
    deliver(text, output.file)
    lost = False
    for document, result in results:
        for note in result.notes:
            say(f"{document.origin}, {note.field}: {note.text}")
            lost = lost or note.lost
    if lost:
        sys.exit(EXIT_FINDINGS)


def _results(
    files: inputs.InputFiles, notes: InputNotes, target: str, minor: int | None, source: ForeignMembers | None
) -> Iterator[tuple[Document, Converted]]:
    """Yield each document with its conversion; one of a folder that does not decode is noted instead."""
    for document in read_documents(files, notes):
        try:
            yield document, _converted(document, target, minor, source, strict=files.strict)
        except ReadError as error:
            if files.strict or not document.found:
                raise
            notes.skipped.append(error.skipped())


def _yaml(document: Document, result: Converted, *, last: bool) -> str:
    """Return a result as YAML: the text of the input with its changes, or else written again."""
    text = document.text()
    if text is not None and not document.items:
        # A line break at the end changes a block scalar there, so the text must be closed without one.
        for source in (text if text.endswith("\n") else f"{text}\n", text if last else ""):
            kept = yamledit.edited(source, document.value(), result.document) if source else None
            if kept is not None:
                return kept
    if text is not None and yamledit.has_comments(text):
        why = (
            "its List is written as single objects"
            if document.items
            else "the change is in an alias or the like"
        )
        progress.write_line(f"{document.origin}: comments are not kept, because {why}")
    return dump_all([result.document])


def _converted(
    document: Document, target: str, minor: int | None, source: ForeignMembers | None, *, strict: bool
) -> Converted:
    """Return one document converted. Raises ReadError if it does not decode."""
    api_version, kind = document.apiVersion, document.kind
    if source is not None and group_of(api_version) in source.project.api_groups:
        if (api_version, kind) not in source.project.group_kinds:
            return _unchanged(document)
        document.read(ForeignGroup)
        return convert_foreign(document.value(), target)
    read = MANIFEST_READS.get((api_version, kind))
    if read is not None:
        # Decoded once, so that a wrong type is an error of the input, with its line.
        document.read(read.type)
        if read.kind in (Kind.POD_GROUP, Kind.WORKLOAD, Kind.COMPOSITE_GROUP):
            return convert(document.value(), target, minor)
        return regroup(document.value(), target, source)
    value = document.value()
    if group_of(api_version) in (NATIVE_GROUP, PODIUM_GROUP) and kind.removesuffix("List") in _KINDS:
        if kind.endswith("List") and api_version in VERSIONS and "Composite" not in kind:
            # An empty List of PodGroups or Workloads.
            return Converted({**value, "apiVersion": target}, [])
        if api_version != target:
            return _unchanged(document)
    elif strict and kind != "List":
        raise document.error(f"Podium does not read {api_version} {kind} (--strict)")
    return Converted(value, [])


def _unchanged(document: Document) -> Converted:
    text = f"{document.apiVersion} {document.kind} cannot be converted and is unchanged"
    return Converted(document.value(), [ConversionNote("apiVersion", text, lost=True)])
