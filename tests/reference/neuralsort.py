"""When NeuralSort's plan collapses: its diagnostics with one thing of its computation changed, on the tokens of real images.

    python tests/reference/neuralsort.py PROBE.safetensors IMAGE.npz ...

PROBE is one of the head `neuralsort`, every IMAGE.npz was written by `ssmprobe inspect --save-tokens`. Prints the mean over
images of `rank_coverage`, `argmax_entropy` and `row_max_mean` (docs/definitions.md, section 5)."""

import math
import sys

import numpy as np
import torch
from safetensors.numpy import load_file

TEMPERATURES = [0.01, 0.1, 1, 10, 100, 1000, 10000]


def standardised(s):
    return (s - s.mean()) / (s.std(correction=0) + 1e-6)


def logits(s, tau):
    """[r, i], descending."""
    n = len(s)
    scale = n + 1 - 2 * torch.arange(1, n + 1, dtype=s.dtype)
    return (scale[:, None] * s[None] - (s[:, None] - s[None]).abs().sum(1)[None]) / tau


def plan(s, tau, axis):
    """[i, k]: `axis` 1 is the softmax over tokens, as NeuralSort has it, 0 that over positions."""
    return torch.softmax(logits(s, tau), axis).flip(0).T


def row_sum_to_one(p):
    return p / p.sum(1, keepdim=True)


def diagnostics(p):
    n = len(p)
    best = p.argmax(1)
    share = torch.bincount(best, minlength=n).double() / n
    entropy = -(share * share.clamp_min(1e-300).log()).sum() / math.log(n)
    return [float(len(best.unique())) / n, float(entropy), float(p.double().max(1).values.mean())]


CHANGES = {
    "as defined": lambda raw, tau: plan(standardised(raw), tau, 1),
    "in float16": lambda raw, tau: plan(standardised(raw).half(), tau, 1),
    "scores not standardised": lambda raw, tau: plan(raw, tau, 1),
    "scores not standardised, in float16": lambda raw, tau: plan(raw.half(), tau, 1),
    "all scores equal": lambda raw, tau: plan(torch.full_like(raw, float(raw.mean())), tau, 1),
    "softmax over positions": lambda raw, tau: plan(standardised(raw), tau, 0),
    "softmax over positions, scores not standardised": lambda raw, tau: plan(raw, tau, 0),
}


def main(probe, *images):
    weight = load_file(probe)["scorer.weight"][0].astype("f8")
    raw = [torch.from_numpy(np.load(image)["tokens"].astype("f8") @ weight) for image in images]
    spread = np.mean([float(s.std()) for s in raw])
    print(f"{len(raw)} images, N {len(raw[0])}; raw scores: mean {np.mean([float(s.mean()) for s in raw]):.4f}, deviation {spread:.4f}")
    print(f"same sign in {np.mean([float((s > 0).all() or (s < 0).all()) for s in raw]):.2f} of the images")
    for name, change in CHANGES.items():
        for tau in TEMPERATURES:
            found = np.mean([diagnostics(change(s, tau)) for s in raw], 0)
            print(f"{name:48} tau {tau:<8} coverage {found[0]:.4f}  entropy {found[1]:.4f}  row max {found[2]:.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
