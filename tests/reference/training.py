"""Trains heads by the paper's protocol in plain PyTorch, on the tokens of a frozen backbone of transformers:
nothing of this program is used, so that its accuracies have something to agree with.

With PyTorch, transformers, Pillow, numpy and safetensors installed:

    python tests/reference/training.py --backbone DIR --data IMAGES --out RESULTS.json \\
        --heads gap,cls,raster,sinkhorn --epochs 40 --batch 32 --rate 3e-3 --seeds 3

`IMAGES` holds train/CLASS/* and val/CLASS/* (or test/CLASS/*), or is CUB_200_2011 as distributed. Every head
(tests/reference/peer.py) has an AdamW of its own without weight decay; the rate falls along half a cosine over
all steps; images are shuffled anew in every epoch. A head starts from its seed. Tokens are kept in float16, as
this program's cache keeps them. `RESULTS.json` holds, for each head and seed, the best and the last accuracy
on the held-out images in percent; with `--run RUN`, a run of `ssmprobe train`, both are printed side by side
as a Markdown table.
"""

import argparse
import csv
import json
import math
import statistics
import time
from pathlib import Path

import torch
from PIL import Image, UnidentifiedImageError

from peer import Probe, step


def folder_samples(root):
    """(path, class, is held out), in order of their names."""
    held = "test" if (root / "test").is_dir() else "val"
    classes = sorted(path.name for path in (root / "train").iterdir() if path.is_dir())
    samples = []
    for split in ("train", held):
        for index, name in enumerate(classes):
            files = sorted(path for path in (root / split / name).iterdir() if path.is_file())
            samples += [(path, index, split == held) for path in files]
    return samples, classes


def cub_samples(root):
    table = lambda name: dict(line.split(maxsplit=1) for line in (root / name).read_text().splitlines())
    images, labels, train = table("images.txt"), table("image_class_labels.txt"), table("train_test_split.txt")
    there = {number: root / "images" / path for number, path in images.items() if (root / "images" / path).exists()}
    known = sorted({int(labels[number]) for number in there})
    return [(path, known.index(int(labels[i])), train[i].strip() == "0") for i, path in there.items()], known


@torch.no_grad()
def tokens_of(backbone, samples):
    """Patch tokens [M, N, d] and CLS tokens [M, d] in float16, and which samples could be read."""
    from transformers import AutoImageProcessor, AutoModel

    processor = AutoImageProcessor.from_pretrained(backbone, backend="pil")
    model = AutoModel.from_pretrained(backbone).eval()
    patches, cls, kept = [], [], []
    for start in range(0, len(samples), 32):
        photos = []
        for at, (path, _, _) in enumerate(samples[start : start + 32], start):
            try:
                photos.append(Image.open(path).convert("RGB"))
                kept.append(at)
            except (UnidentifiedImageError, OSError) as error:
                print(f"left out: {error}")
        pixels = processor(photos, return_tensors="pt")["pixel_values"]
        hidden = model(pixel_values=pixels).last_hidden_state.half()
        patches.append(hidden[:, 1:])
        cls.append(hidden[:, 0])
    return torch.cat(patches), torch.cat(cls), kept


@torch.no_grad()
def accuracy(probe, patches, cls, labels, batch):
    right = 0
    for at in range(0, len(labels), batch):
        part = slice(at, at + batch)
        right += (probe(patches[part].float(), cls[part].float()).argmax(1) == labels[part]).sum().item()
    return 100 * right / len(labels)


def train(heads, train_set, test_set, classes, how, seed):
    patches, cls, labels = train_set
    n, width = patches.shape[1:]
    side = math.isqrt(n)
    probes = {}
    for head in heads:
        torch.manual_seed(seed)
        probes[head] = Probe(head, width, (side, side), classes)
    optimisers = {
        head: torch.optim.AdamW(probe.parameters(), lr=how.rate, weight_decay=0.0) for head, probe in probes.items()
    }
    total = how.epochs * math.ceil(len(labels) / how.batch)
    schedules = [torch.optim.lr_scheduler.CosineAnnealingLR(o, total) for o in optimisers.values()]
    torch.manual_seed(seed)
    curves = {head: [] for head in heads}
    for epoch in range(how.epochs):
        begun, loss = time.perf_counter(), 0.0
        for rows in torch.randperm(len(labels)).split(how.batch):
            batch = patches[rows].float(), cls[rows].float(), labels[rows]
            for head, probe in probes.items():
                loss += step(probe, optimisers[head], *batch)[0]
            for schedule in schedules:
                schedule.step()
        for head, probe in probes.items():
            curves[head].append(accuracy(probe, *test_set, how.batch))
        now = ", ".join(f"{head} {curve[-1]:.1f}" for head, curve in curves.items())
        print(f"seed {seed}, epoch {epoch + 1}: {now} ({time.perf_counter() - begun:.1f} s)", flush=True)
    return [{"head": h, "seed": seed, "best": max(c), "last": c[-1]} for h, c in curves.items()]


def compared(results, run):
    """A Markdown table: mean and standard deviation over seeds, here and in `run`."""
    with open(Path(run) / "results.csv") as file:
        ours = list(csv.DictReader(file))
    lines = ["| head | best, SSMProbe | best, PyTorch | difference | last, SSMProbe | last, PyTorch | difference |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for head in dict.fromkeys(row["head"] for row in results):
        cells = [head]
        for which in ("best", "last"):
            here = [float(row[which]) for row in ours if row["head"] == head]
            there = [row[which] for row in results if row["head"] == head]
            spread = lambda values: f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"
            cells += [spread(here), spread(there), f"{statistics.mean(here) - statistics.mean(there):+.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--heads", default="gap,cls,raster,sinkhorn")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True, help="written, or only read where --data is not given")
    parser.add_argument("--run", type=Path, help="a run of `ssmprobe train` to stand beside")
    parser.add_argument("--threads", type=int)
    how = parser.parse_args()
    if how.threads:
        torch.set_num_threads(how.threads)
    if how.data:
        samples, classes = cub_samples(how.data) if (how.data / "images.txt").exists() else folder_samples(how.data)
        patches, cls, kept = tokens_of(how.backbone, samples)
        labels = torch.tensor([samples[i][1] for i in kept])
        held = torch.tensor([samples[i][2] for i in kept])
        parts = [[values[which] for values in (patches, cls, labels)] for which in (~held, held)]
        print(f"{len(parts[0][2])} images to train on, {len(parts[1][2])} to test on, {len(classes)} classes")
        results = []
        for seed in range(how.seeds):
            results += train(how.heads.split(","), *parts, len(classes), how, seed)
        how.out.write_text(json.dumps(results, indent=1) + "\n")
    if how.run:
        print(compared(json.loads(how.out.read_text()), how.run))


if __name__ == "__main__":
    main()
