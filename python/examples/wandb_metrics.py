"""Sends the curves of a run to Weights & Biases: `python wandb_metrics.py RUN [PROJECT]`.

One run there for each head and seed, one step an epoch; done again, it replaces what it sent. Needs `pip install wandb` and
`wandb login`.
"""

import json
import re
import sys
from collections import defaultdict
from pathlib import Path

import wandb


def main(folder: Path, project: str) -> None:
    about = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    curves = defaultdict(list)
    for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        epoch = json.loads(line)
        if "step" not in epoch:  # an evaluation within an epoch
            curves[epoch.pop("head"), epoch.pop("seed")].append(epoch)
    for (head, seed), epochs in curves.items():
        config = about["protocol"] | {"head": head, "seed": seed}
        config |= {"backbone": about["backbone"]["id"], "dataset": about["dataset"]["name"]}
        name = re.sub(r"[^\w.-]+", "-", f"{folder.resolve().name}-{head}-s{seed}")
        run = wandb.init(project=project, id=name, name=name, group=folder.resolve().name, config=config)
        for epoch in epochs:
            run.log({key: value for key, value in epoch.items() if key != "epoch"}, step=epoch["epoch"])
        run.finish()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "ssmprobe")
