"""`python -m tools.smoke` installs Podium without extras and runs its commands on files, on any system.

It needs Python 3.11 or newer and no other package. The virtual environment is new at each run, so a package
that `pip install podium-k8s` does not bring is found. A command on a cluster must name its extra.
"""

import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_VENV = ROOT / "out" / "smoke"


class SmokeCase(NamedTuple):
    """A command line in the checkout, its exit code, and a part of its output."""

    line: str
    code: int
    output: str


ON_FILES = (
    SmokeCase("--help", 0, "Check Commands:"),
    SmokeCase("version", 0, "podium, version"),
    SmokeCase("audit -f examples/training-1.37.json.gz", 3, "will not schedule on Kubernetes 1.37"),
    SmokeCase("audit -R -f examples -o json --fail-on never", 0, '"findings"'),
    SmokeCase(
        "audit -f examples/ci/deploy --config examples/ci/audit.yaml --baseline examples/ci/baseline.json",
        0,
        "baseline",
    ),
    SmokeCase("audit -f examples/ci/deploy -o sarif --fail-on never", 0, '"examples/ci/deploy/'),
    SmokeCase("audit -f examples/ci/deploy -o github --fail-on never", 0, "file=examples/ci/deploy/"),
    SmokeCase("admit -f examples/admit/gang.yaml --existing examples/training-1.37.json.gz", 3, "contest"),
    SmokeCase("whatif -f examples/preemption/cluster.yaml --group research/train", 0, "research/train"),
    SmokeCase(
        "whatif -f examples/preemption/cluster.yaml --add examples/preemption/urgent.yaml",
        0,
        "fits after preemption",
    ),
    SmokeCase("why group team-ranking/retrain -f examples/training-1.37.json.gz", 0, "team-ranking/retrain"),
    SmokeCase("report -f examples/preemption/records.yaml", 3, "Preemption evicted"),
    SmokeCase("preflight -f examples/training-1.36.json.gz --to 1.37", 3, "1.37"),
    SmokeCase(
        "convert -f examples/admit/gang.yaml --to scheduling.podium.dev/v1beta1",
        0,
        "apiVersion: scheduling.podium.dev/v1beta1",
    ),
    SmokeCase("explain class-missing", 0, "class-missing"),
    SmokeCase("manifests crds", 0, "kind: CustomResourceDefinition"),
    SmokeCase("manifests policies --config examples/webhook/policy.yaml", 0, "ValidatingAdmissionPolicy"),
    SmokeCase("completion bash", 0, "podium"),
)


def _refused(line: str, extra: str) -> SmokeCase:
    """Return the case of a command whose packages are not installed: one line that names its extra."""
    return SmokeCase(line, 2, f"Run: pip install 'podium-k8s[{extra}]'")


ON_CLUSTERS = tuple(
    _refused(line, "live")
    for line in (
        "audit -A",
        "admit -f examples/admit/gang.yaml --existing live",
        "whatif -A",
        "preflight -A --to 1.38",
        "why pod team-a/trainer",
        "report",
        "doctor",
        "ui",
        "ui -f examples/training-1.37.json.gz",
        "migrate -A --to native",
        "dump -A",
    )
)
ON_UNIX = tuple(_refused(line, "server") for line in ("webhook", "controller", "scheduler"))
ON_WINDOWS = tuple(SmokeCase(case.line, 2, f"podium {case.line} does not run on Windows") for case in ON_UNIX)


def problem(program: list[str], case: SmokeCase) -> str:
    """Run a case in the checkout, and return the difference from its code and output; empty for none.

    A refusal, with code 2, is one line.
    """
    done = subprocess.run([*program, *case.line.split()], cwd=ROOT, capture_output=True, check=False)
    text = (done.stdout + done.stderr).decode("utf-8")
    whole = case.code != 2 or len(text.splitlines()) == 1
    if done.returncode == case.code and case.output in text and whole and "Traceback" not in text:
        return ""
    return (
        f"podium {case.line}: exit code {done.returncode}, not {case.code}, or no {case.output!r} in:\n{text}"
    )


def installed() -> Path:
    """Install the checkout without extras into a new virtual environment, and return the program."""
    venv.create(_VENV, clear=True, with_pip=True)
    folder = _VENV / ("Scripts" if sys.platform == "win32" else "bin")
    pip = [str(folder / "python"), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", str(ROOT)], check=True)
    subprocess.run([*pip, "list"], check=True)
    return folder / "podium"


def main() -> None:
    program = [str(installed())]
    cases = ON_FILES + ON_CLUSTERS + (ON_WINDOWS if sys.platform == "win32" else ON_UNIX)
    problems = [message for case in cases if (message := problem(program, case))]
    print("\n".join(problems) or f"{len(cases)} commands as expected")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
