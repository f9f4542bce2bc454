"""Trains heads by the paper's protocol in plain PyTorch, on the tokens of a frozen backbone of transformers:
this program is not used, so that its accuracies can be compared with independent ones.

With PyTorch, transformers, Pillow, numpy and safetensors installed:

    python tests/reference/training.py --backbone DIR --data IMAGES --out RESULTS.json \\
        --heads gap,cls,raster,sinkhorn --epochs 40 --batch 32 --rate 3e-3 --seeds 3

`IMAGES` holds train/CLASS/* and val/CLASS/* (or test/CLASS/*), or is CUB_200_2011 as distributed. Every head
(tests/reference/peer.py) has an AdamW of its own without weight decay; the rate falls along half a cosine over
all steps; images are shuffled anew in every epoch. A head starts from its seed. Tokens are kept in float16, as
this program's cache keeps them. `--protocol mae-linprobe` takes LARS at 0.1 x batch / 256, whose rate rises for ten
epochs, `--protocol dinov2-linear` SGD with momentum at each of 13 rates; classifiers start as theirs do, and epochs and
rates are theirs unless given. The best epoch, and of several rates the best, is picked on the held-out images, or with
`--select-split SHARE` on that share of every class of the others. `RESULTS.json` holds, for each head, rate and seed,
the accuracy there and on the held-out images in percent at the best epoch, and the last one; with `--run RUN`, a run of
`ssmprobe train`, both are printed side by side as a Markdown table.
"""

import argparse
import json
import math
import statistics
import time
from pathlib import Path

import torch
from PIL import Image, UnidentifiedImageError

from optim import warmed
from peer import Probe, step


class Lars(torch.optim.Optimizer):
    """SGD with momentum 0.9, after the gradient of every matrix was scaled by 0.001 |x| / |g|."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for x in group["params"]:
                gradient, velocity = x.grad, self.state[x].setdefault("velocity", torch.zeros_like(x))
                sizes = x.norm().item(), gradient.norm().item()
                if x.dim() > 1 and min(sizes) > 0:
                    gradient = gradient * (0.001 * sizes[0] / sizes[1])
                velocity.mul_(0.9).add_(gradient)
                x.sub_(velocity, alpha=group["lr"])


DINOV2_RATES = [1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1]
# Optimiser, epochs, rates of a batch, epochs in which the rate rises.
PROTOCOLS = {
    "paper": (lambda x, lr: torch.optim.AdamW(x, lr=lr, weight_decay=0.0), 100, lambda batch: [1e-3], 0),
    "mae-linprobe": (Lars, 90, lambda batch: [0.1 * batch / 256], 10),
    "dinov2-linear": (
        lambda x, lr: torch.optim.SGD(x, lr=lr, momentum=0.9),
        10,
        lambda batch: [rate * batch / 256 for rate in DINOV2_RATES],
        0,
    ),
}


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
    probe.eval()
    right = 0
    for at in range(0, len(labels), batch):
        part = slice(at, at + batch)
        right += (probe(patches[part].float(), cls[part].float()).argmax(1) == labels[part]).sum().item()
    probe.train()
    return 100 * right / len(labels)


def set_aside(part, share, seed):
    """Splits `part` into images to train on and images that pick the best epoch, `share` of every class."""
    labels, aside = part[2], torch.zeros(len(part[2]), dtype=torch.bool)
    drawn = torch.Generator().manual_seed(seed)
    for name in labels.unique():
        own = (labels == name).nonzero()[:, 0]
        aside[own[torch.randperm(len(own), generator=drawn)[: round(share * len(own))]]] = True
    return [[values[which] for values in part] for which in (~aside, aside)]


def train(heads, train_set, select_set, test_set, classes, how, seed):
    patches, cls, labels = train_set
    n, width = patches.shape[1:]
    side = math.isqrt(n)
    optimiser, _, _, warm_up = PROTOCOLS[how.protocol]
    steps = math.ceil(len(labels) / how.batch)
    factor = lambda done: warmed(1.0, done / steps, warm_up, how.epochs)
    cells = {}
    for head in heads:
        for rate in how.rates:
            torch.manual_seed(seed)
            probe = Probe(head, width, (side, side), classes)
            if how.protocol != "paper":  # as these projects' classifiers start
                torch.nn.init.normal_(probe.classifier.weight, std=0.01)
                torch.nn.init.zeros_(probe.classifier.bias)
            steps_it = optimiser(probe.parameters(), lr=rate)
            cells[head, rate] = probe, steps_it, torch.optim.lr_scheduler.LambdaLR(steps_it, factor)
    torch.manual_seed(seed)
    curves = {cell: [] for cell in cells}
    for epoch in range(how.epochs):
        begun = time.perf_counter()
        for rows in torch.randperm(len(labels)).split(how.batch):
            batch = patches[rows].float(), cls[rows].float(), labels[rows]
            for probe, steps_it, schedule in cells.values():
                step(probe, steps_it, *batch)
                schedule.step()
        for cell, (probe, _, _) in cells.items():
            picked = accuracy(probe, *select_set, how.batch)
            test = picked if select_set is test_set else accuracy(probe, *test_set, how.batch)
            curves[cell].append((picked, test))
        now = ", ".join(f"{head} {curve[-1][1]:.1f}" for (head, _), curve in curves.items())
        print(f"seed {seed}, epoch {epoch + 1}: {now} ({time.perf_counter() - begun:.1f} s)", flush=True)
    return [outcome(head, rate, seed, curve) for (head, rate), curve in curves.items()]


def outcome(head, rate, seed, curve):
    """The result of a curve of pairs of accuracies: on the images that pick the epoch, and on those that are reported."""
    picked, test = max(curve, key=lambda pair: pair[0])  # the first of equals
    return {"head": head, "rate": rate, "seed": seed, "select": picked, "best": test, "last": curve[-1][1]}


def outcomes_of(run):
    """The results of a run of `ssmprobe train`, from its curves."""
    manifest = json.loads((Path(run) / "run.json").read_text())
    rate, variants = manifest["protocol"]["rate"], {one["name"]: one for one in manifest["heads"]}
    curves = {}
    for line in map(json.loads, (Path(run) / "metrics.jsonl").read_text().splitlines()):
        if "step" not in line:
            curves.setdefault((line["head"], line["seed"]), []).append((line["select"], line["test"]))
    return [
        outcome(variants[name]["head"], variants[name].get("rate", rate), seed, curve)
        for (name, seed), curve in curves.items()
    ]


def compared(results, run):
    """A Markdown table: mean and deviation over seeds, here and in `run`; of several rates, at the picked one."""
    spread = lambda values: f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"
    sides, mean = (outcomes_of(run), results), statistics.mean
    of = lambda rows, head, rate: [row for row in rows if row["head"] == head and math.isclose(row["rate"], rate)]
    column = lambda rows, which: [row[which] for row in rows]
    rates = sorted({row["rate"] for row in results})
    picked = ["rate, SSMProbe", "rate, PyTorch"] if len(rates) > 1 else []
    lines = ["| head | " + " | ".join(picked + ["best, SSMProbe", "best, PyTorch", "difference"]).strip()]
    lines[0] += " | last, SSMProbe | last, PyTorch | difference |"
    lines.append("|---" * (lines[0].count("|") - 1) + "|")
    apart = []
    for head in dict.fromkeys(row["head"] for row in results):
        cells = [[of(rows, head, rate) for rate in rates] for rows in sides]
        chosen = [max(range(len(rates)), key=lambda at: mean(column(side[at], "select"))) for side in cells]
        ours, theirs = (side[at] for side, at in zip(cells, chosen))
        row = [head] + ([f"{rates[at]:.3g}" for at in chosen] if picked else [])
        for which in ("best", "last"):
            here, there = column(ours, which), column(theirs, which)
            row += [spread(here), spread(there), f"{mean(here) - mean(there):+.2f}"]
        lines.append("| " + " | ".join(row) + " |")
        apart += [mean(column(a, "last")) - mean(column(b, "last")) for a, b in zip(*cells)]
    if picked:
        far = f"{max(map(abs, apart)):.2f} points at most, {mean(map(abs, apart)):.2f} in the mean"
        lines.append(f"\nlast accuracies at all {len(apart)} rates of these heads: {far}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--heads", default="gap,cls,raster,sinkhorn")
    parser.add_argument("--protocol", choices=PROTOCOLS, default="paper")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--select-split", type=float)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True, help="written, or only read where --data is not given")
    parser.add_argument("--run", type=Path, help="a run of `ssmprobe train` to stand beside")
    parser.add_argument("--threads", type=int)
    how = parser.parse_args()
    _, epochs, rates, _ = PROTOCOLS[how.protocol]
    how.epochs = how.epochs or epochs
    how.rates = [how.rate] if how.rate else rates(how.batch)
    if how.threads:
        torch.set_num_threads(how.threads)
    if how.data:
        samples, classes = cub_samples(how.data) if (how.data / "images.txt").exists() else folder_samples(how.data)
        patches, cls, kept = tokens_of(how.backbone, samples)
        labels = torch.tensor([samples[i][1] for i in kept])
        held = torch.tensor([samples[i][2] for i in kept])
        parts = [[values[which] for values in (patches, cls, labels)] for which in (~held, held)]
        print(f"{len(parts[0][2])} images to train on, {len(parts[1][2])} to test on, {len(classes)} classes")
        learnt, test = parts
        learnt, select = set_aside(learnt, how.select_split, 0) if how.select_split else (learnt, test)
        results = []
        for seed in range(how.seeds):
            results += train(how.heads.split(","), learnt, select, test, len(classes), how, seed)
        how.out.write_text(json.dumps(results, indent=1) + "\n")
    if how.run:
        print(compared(json.loads(how.out.read_text()), how.run))


if __name__ == "__main__":
    main()
