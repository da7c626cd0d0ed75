"""An MPI loop that saves its work on SIGTERM. All ranks stop after the same step.

In a worker of an MPIJob SIGTERM reaches sshd only. A preStop hook passes it on and waits:
`pkill -TERM -f train_mpi.py; while pgrep -f train_mpi.py; do sleep 1; done`.
"""

import json
import os
import signal

from mpi4py import MPI

FILE = os.environ.get("CHECKPOINT", "checkpoint.json")
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(True))

ranks = MPI.COMM_WORLD
step = 0
if os.path.exists(FILE):
    with open(FILE) as file:
        step = json.load(file)["step"]
print(f"begins at step {step}", flush=True)

while step < 1_000_000_000:
    step += 1
    # Kubernetes asks each pod at its own moment: one asked rank stops all of them.
    if ranks.allreduce(len(asked), op=MPI.MAX):
        if ranks.Get_rank() == 0:
            with open(f"{FILE}.new", "w") as file:
                json.dump({"step": step}, file)
            os.replace(f"{FILE}.new", FILE)
            print(f"saved step {step}", flush=True)
        break
