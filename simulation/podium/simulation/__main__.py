"""`python -m podium.simulation` runs stories of seeds, and shows the shortest story of each that fails.

The exit code is 1 if an invariant did not hold. A seed and a commit give the same run, to the byte.
"""

import argparse
import sys
import time

from podium.simulation.story import RunResult, Story, StoryEvent, drawn, run, shortened
from podium.stderr import say


def main() -> int:
    """Run the seeds that the command line names, and return the exit code."""
    parser = argparse.ArgumentParser(prog="make simulate")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=20, help="how many seeds")
    parser.add_argument("--shorten", action="store_true", help="show the shortest story of the first failure")
    parser.add_argument("--log", action="store_true", help="write the logs of the processes")
    chosen = parser.parse_args()
    if sys.flags.hash_randomization:
        say("simulate: hashes are random, so no run repeats: run `make simulate`")
        return 2
    began, seconds, failed = time.perf_counter(), 0.0, 0
    for seed in range(chosen.seed, chosen.seed + chosen.count):
        story = drawn(seed)
        result = run(story, tells=chosen.log)
        seconds += result.seconds
        _write(_line(seed, result))
        if result.broken:
            failed += 1
            if chosen.shorten:
                _write(_told(shortened(story, lambda shorter: bool(run(shorter).broken))))
                break
    spent = time.perf_counter() - began
    _write(f"{seconds:.0f} simulated seconds in {spent:.0f} s, {failed} failed")
    return 1 if failed else 0


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _line(seed: int, result: RunResult) -> str:
    first = f": {result.broken[0]}" if result.broken else ""
    return f"seed {seed}: {result.binds} binds, {result.victims} victims, {result.digest[:12]}{first}"


def _told(story: Story) -> str:
    return "\n".join([f"{story.nodes} nodes", *map(_of_event, story.events)])


def _of_event(event: StoryEvent) -> str:
    what = event.workload or (f"{event.subject} {event.value:g}")
    return f"{event.at:8.1f} s  {event.kind}  {what}"


if __name__ == "__main__":
    sys.exit(main())
