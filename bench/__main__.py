"""`make bench`: the time of the main jobs, with a peer in the same run, written to bench/RESULTS.md.

A machine is noisy, so the compared programs run in turns (A B A B ...) and the ratios count, not the seconds.
Nothing here asserts: the claims in the README quote RESULTS.md. `python -m bench PART ...` measures some
parts again and keeps the figures of the others.
"""

import sys
from pathlib import Path

from bench import (
    breakdown,
    commands,
    constrained,
    controller,
    devices,
    effort,
    eventloop,
    firsts,
    gangholds,
    gangs,
    latency,
    pages,
    preemption,
    regret,
    simulation,
    takeover,
    throughput,
    webhook,
    witness,
)
from bench.results import machine, merged, render

from podium.errors import PodiumError

RESULTS = Path(__file__).with_name("RESULTS.md")
PARTS = {
    "start": commands.start,
    "rules": commands.rules,
    "audit": commands.audits,
    "ui": pages.measure,
    "webhook": webhook.measure,
    "http": breakdown.measure,
    "writes": latency.measure,
    "controller": controller.measure,
    "preemption": preemption.measure,
    "constrained": constrained.measure,
    "devices": devices.measure,
    "effort": effort.measure,
    "regret": regret.measure,
    "witness": witness.measure,
    "simulation": simulation.measure,
    "holds": gangholds.measure,
    "scheduler": gangs.measure,
    "eventloop": eventloop.measure,
    "takeover": takeover.measure,
    "pods": throughput.scheduling_basic,
    "preemptors": throughput.preemption_basic,
    "gangs": throughput.gangs,
    "racks": throughput.racks,
    "claims": throughput.claims,
    "install": firsts.measure,
}


def main(names: list[str]) -> int:
    """Measure these parts, or all, and write each down as soon as it is known."""
    strangers = [name for name in names if name not in PARTS]
    if strangers:
        print(f"no part {', '.join(strangers)}: there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    for name in names or PARTS:
        try:
            section = render(PARTS[name](), machine())
        except PodiumError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        print(section, flush=True)
        text = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
        RESULTS.write_text(merged(text, section), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
