"""A PyTorch loop that saves its work on SIGTERM. All ranks stop after the same step.

Run it as the container's own process (`exec torchrun train_pytorch.py`), so that SIGTERM reaches it.
"""

import os
import signal

import torch
import torch.distributed as dist

FILE = os.environ.get("CHECKPOINT", "checkpoint.pt")
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(True))

dist.init_process_group("gloo")
model = torch.nn.Linear(8, 1)
step = 0
if os.path.exists(FILE):
    saved = torch.load(FILE)
    model.load_state_dict(saved["model"])
    step = saved["step"]
print(f"begins at step {step}", flush=True)

while step < 1_000_000_000:
    model(torch.ones(8)).sum().backward()
    step += 1
    # Kubernetes asks each pod at its own moment: one asked rank stops all of them.
    stop = torch.tensor(len(asked))
    dist.all_reduce(stop, op=dist.ReduceOp.MAX)
    if stop.item():
        if dist.get_rank() == 0:
            torch.save({"model": model.state_dict(), "step": step}, f"{FILE}.new")
            os.replace(f"{FILE}.new", FILE)
            print(f"saved step {step}", flush=True)
        break
