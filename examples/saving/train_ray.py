"""A Ray Train loop that checkpoints every ten minutes. Ray does not pass SIGTERM on to the loop.

So its pods declare `checkpoint-interval: 10m` instead of `saves-on-termination`.
"""

import json
import os
import tempfile
import time

import ray.train
from ray.train.torch import TorchTrainer

INTERVAL = float(os.environ.get("INTERVAL_SECONDS", "600"))
STEPS = int(os.environ.get("STEPS", "1000000000"))


def loop():
    step, saved_at = 0, time.monotonic()
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder, open(f"{folder}/step.json") as file:
            step = json.load(file)["step"]
    print(f"begins at step {step}", flush=True)
    while step < STEPS:
        step += 1
        if time.monotonic() - saved_at >= INTERVAL:
            with tempfile.TemporaryDirectory() as folder:
                with open(f"{folder}/step.json", "w") as file:
                    json.dump({"step": step}, file)
                ray.train.report({"step": step}, checkpoint=ray.train.Checkpoint.from_directory(folder))
            saved_at = time.monotonic()


TorchTrainer(loop, scaling_config=ray.train.ScalingConfig(num_workers=2)).fit()
