"""The same writes by kubectl: many documents a command, and an answer for each.

kubectl continues after a refusal and reports refusals in order. So one run (a tenth of a second of start-up)
serves a whole table.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence

from tests.support.parity.sides import Answer, Document, Side, answer_of
from tools.devcluster.controlplane import programs

_CODES = {
    "BadRequest": 400,
    "Forbidden": 403,
    "NotFound": 404,
    "AlreadyExists": 409,
    "Conflict": 409,
    "Invalid": 422,
    "InternalError": 500,
    "kubectl": 600,  # kubectl's own
}
# A refusal begins a line; the text until the next one belongs to it.
_REFUSAL = re.compile(r"^(?=Error from server|The \w+ \"|Apply failed|error: )", re.MULTILINE)
_SERVER = re.compile(
    r"Error from server(?: \((?P<reason>\w+)\))?: "
    r"(?:error when applying patch:\n.*?for: \"STDIN\": )?(?:error when \w+ \"STDIN\": )?(?P<message>.*)\Z",
    re.DOTALL,
)
_CONFLICT = re.compile(r"(Apply failed with \d+ conflicts?: .*?)\nPlease review.*", re.DOTALL)
# The message has other words if there is one document only.
_ALONE = re.compile(r'The (\w+) "([^"]*)" is invalid: (.*)\Z', re.DOTALL)
# The start of the next field error in a list of them.
_FIELD = re.compile(r", (?=(?:spec|metadata|status|patch|<nil>)[^ :]*: [A-Z])")
_WARNING = re.compile(r"^Warning: .*\n", re.MULTILINE)


def batch(side: Side, arguments: Sequence[str], documents: Sequence[Document]) -> list[Answer]:
    """Return one answer a document; for accepted documents kubectl prints nothing else."""
    # Not a List: kubectl would validate its items itself, and send nothing.
    text = "---\n".join(json.dumps(side.own(document)) + "\n" for document in documents)
    done = run(side, *arguments, "-f", "-", "-o", "name", stdin=text)
    names = {line.partition("/")[2] for line in done.stdout.splitlines()}
    refusals = list(refused(done.stderr))
    accepted = [document["metadata"]["name"] in names for document in documents]
    assert accepted.count(False) == len(refusals), f"{arguments}: {done.stdout}\n{done.stderr}"
    rest = iter(refusals)
    return [Answer(code=200) if good else next(rest) for good in accepted]


def run(side: Side, *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    """Run kubectl as the server's administrator, with any exit code."""
    server = side.server
    program = programs.find(server.release, ["kubectl"], os.environ, sys.stderr)["kubectl"]
    return subprocess.run(
        [str(program), f"--kubeconfig={server.kubeconfig}", *arguments],
        input=stdin,
        env={**os.environ, "KUBECACHEDIR": str(server.folder / "kubectl-cache")},
        capture_output=True,
        text=True,
        check=False,
    )


def refused(stderr: str) -> Iterator[Answer]:
    """Parse refusals from kubectl's messages."""
    for text in _REFUSAL.split(_WARNING.sub("", stderr))[1:]:
        yield _answer(text.rstrip("\n"))


def _answer(text: str) -> Answer:
    conflict, from_server, alone = _CONFLICT.match(text), _SERVER.match(text), _ALONE.match(text)
    if conflict:
        return answer_of(409, {"reason": "Conflict", "message": conflict[1]})
    if from_server:
        reason, message = from_server["reason"] or "InternalError", from_server["message"]
    elif alone:
        listed = alone[3].strip().removeprefix("* ").split("\n* ")
        body = listed[0] if len(listed) == 1 else f"[{', '.join(listed)}]"
        reason, message = "Invalid", f'{alone[1]} "{alone[2]}" is invalid: {body}'
    else:
        reason, message = "kubectl", text
    causes = list(_causes(message)) if reason == "Invalid" else []
    return answer_of(_CODES[reason], {"reason": reason, "message": message, "details": {"causes": causes}})


def _causes(message: str) -> Iterator[dict[str, str]]:
    """Split a message of field errors."""
    listed = message.partition(" is invalid: ")[2]
    for one in _FIELD.split(listed[1:-1] if listed.startswith("[") else listed):
        field, _, text = one.partition(": ")
        yield {"field": field, "message": text}
