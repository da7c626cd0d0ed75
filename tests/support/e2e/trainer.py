"""A small trainer for a pod of Podium's image: `trainer.py FOLDER WAY`; it goes on from its last save.

The way is `termination` (it saves at SIGTERM), `notice` (when the scheduler asks) or `never`. The folder has
the number of the last step that was done, and that of the last one that was saved. It hears and answers the
scheduler by the code of the example, which is a file beside it in the pod.
"""

import signal
import sys
import time
from pathlib import Path

from train_on_notice import report, request  # type: ignore[import-not-found]  # it is in the pod

_STEP_SECONDS = 0.25


def main(folder: Path, way: str) -> None:
    """Train until SIGTERM."""
    ended: list[int] = []
    # Without a handler the first process of a container ignores the signal.
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    folder.mkdir(exist_ok=True)
    done, saved = folder / "done", folder / "saved"
    step = int(saved.read_text()) if saved.exists() else 0
    while not ended:
        time.sleep(_STEP_SECONDS)
        step += 1
        _write(done, step)
        if way == "notice" and (asked := request()):
            _write(saved, step)
            report()
            # Steps after the save would be lost. The request is taken back if the pod may go on.
            while request() == asked and not ended:
                time.sleep(0.05)
    if way == "termination":
        _write(saved, step)


def _write(file: Path, step: int) -> None:
    draft = file.with_suffix(".new")
    draft.write_text(str(step))
    draft.replace(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
