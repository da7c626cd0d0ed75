"""`podium convert`: rewrite PodGroups, Workloads and their pods for another version or the other API.

The input is read, converted and checked completely before the first byte is written, because a truncated
manifest is worse than none.
"""

import sys

import click

from podium.api.convert import VERSIONS, Converted, Note, convert
from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP
from podium.api.reads import READS, Kind
from podium.api.regroup import regroup
from podium.cli import inputs
from podium.cli.main import EXIT_FINDINGS
from podium.cli.render.data import as_json, as_manifests
from podium.cli.render.output import deliver
from podium.documents.split import Document
from podium.findings import group_of

_KINDS = ("PodGroup", "Workload", "CompositePodGroup")


@click.command("convert", short_help="Rewrite PodGroups and Workloads for another API version.")
@inputs.file_options
@click.option(
    "--to",
    "target",
    required=True,
    type=click.Choice(list(VERSIONS)),
    metavar="GROUP/VERSION",
    help=f"What to convert to: {', '.join(VERSIONS)}.",
)
@inputs.output_options("yaml", "json")
def command(
    filenames: tuple[str, ...], strict: bool, target: str, output: str, output_file: str | None
) -> None:
    """Rewrite PodGroups and Workloads for another version, or for the other API.

    Pods and pod templates in the same input stay members of their groups; everything else is passed through.
    What the target cannot carry is said on stderr, one line each; the exit code is then 3.
    """
    if not filenames:
        raise click.UsageError("Missing option '-f' / '--filename': name a file, a folder, or - for stdin.")
    results: list[tuple[Document, Converted]] = [
        (document, _converted(document, target, strict=strict))
        for document in inputs.read_documents(filenames)
    ]
    documents = [result.document for _, result in results]
    if output == "yaml":
        text = as_manifests(documents)
    elif len(documents) == 1:
        text = as_json(documents[0])
    else:
        text = as_json({"apiVersion": "v1", "kind": "List", "items": documents})
    deliver(text, output_file)
    lost = False
    for document, result in results:
        for note in result.notes:
            click.echo(_line(f"{document.origin}, {note.field}: {note.text}"), err=True)
            lost = lost or note.lost
    if lost:
        sys.exit(EXIT_FINDINGS)


def _line(text: str) -> str:
    """Return a note as one line, whatever characters its field name contains."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _converted(document: Document, target: str, *, strict: bool) -> Converted:
    """Return one document converted. Raises ReadError if it does not decode."""
    api_version, kind = document.apiVersion, document.kind
    read = READS.get((api_version, kind))
    if read is not None:
        # Decoded once, so that a wrong type is an error of the input, with its line.
        document.read(read.type)
        rewrite = convert if read.kind in (Kind.POD_GROUP, Kind.WORKLOAD) else regroup
        return rewrite(document.value(), target)
    value = document.value()
    if group_of(api_version) in (NATIVE_GROUP, PODIUM_GROUP) and kind.removesuffix("List") in _KINDS:
        if kind.endswith("List") and api_version in VERSIONS and "Composite" not in kind:
            # An empty List of PodGroups or Workloads.
            return Converted({**value, "apiVersion": target}, [])
        if api_version != target:
            text = f"{api_version} {kind} is not converted; left as it is"
            return Converted(value, [Note("apiVersion", text, lost=True)])
    elif strict and kind != "List":
        raise document.error(f"{api_version} {kind} is not a kind Podium reads (--strict)")
    return Converted(value, [])
