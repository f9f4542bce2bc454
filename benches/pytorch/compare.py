"""The same work here and in PyTorch, in turn, in one run: prints one JSON line for each name,
{"name", "ours", "pytorch", "ratio", ...}, seconds and PyTorch's time over ours.

With PyTorch, transformers and scipy installed, and `cargo build --release` done:

    python benches/pytorch/compare.py [--only NAME ...] [--turns 3] [--threads 4]

Names and sizes are those of `ssmprobe bench`: a training step (forward, loss, backward, AdamW) of each head of
the paper, `head/<id>/step`, at B 256, N 196, d 768 and 1000 classes; of all of them on one batch,
`heads/joint/step`; the forward pass of ViT-B/16 on 8 images with scaled dot product attention,
`backbone/vit-base/forward` (on GPUs with weights in bfloat16, too); a step on tokens from a cache in float16 whose
images are in another order in every epoch, `cached/<id>/step`; and, on the processor alone, `lookup/16`, one image
explained by 16 probes. The heads are those of tests/reference/peer.py, in float32;
`python tests/reference/peer.py` proves that they compute the same. The look-up is in float64, as ours is.

Both sides have the same number of threads (in a look-up one for each probe at work, within it one) and take
turns, a few runs each, after one untimed run (PyTorch on a GPU after as many); `ours`, `pytorch` and `ratio` are medians over
all turns, `fastest` is the same ratio of the fastest runs, which a busy machine disturbs least. Ours runs as
`ssmprobe bench --only NAME --json`, which times its own runs, so that starting the program is in no figure. PyTorch
runs eagerly and through torch.compile where a C++ compiler is at hand; the faster of the two is the peer, and both
are printed. AdamW is PyTorch's fused one.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "reference"))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", help="names to compare [default: all]")
    parser.add_argument("--turns", type=int, default=3, help="turns of each side")
    parser.add_argument("--runs", type=int, help="runs of one turn [default: 3, on a GPU 10 and of one head 50]")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=196)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--photos", type=int, default=8)
    parser.add_argument("--device", default="cpu", help="of ours: cpu, cuda:0, wgpu:0; PyTorch takes CUDA beside a GPU")
    parser.add_argument("--no-compile", action="store_true", help="eager PyTorch alone")
    parser.add_argument("--ssmprobe", default=str(ROOT / "target" / "release" / "ssmprobe"))
    return parser.parse_args()


HOW = arguments()
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(HOW.threads)
# Threads of OpenMP that spin while they wait make PyTorch a hundred times slower on a busy machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np  # noqa: E402
import torch  # noqa: E402 (reads its number of threads when it is loaded)

from lookup import look, probes_of  # noqa: E402
from peer import PAPER, Probe, sinkhorn, step  # noqa: E402

DEVICE = torch.device("cpu" if HOW.device == "cpu" else "cuda")
torch.set_num_threads(HOW.threads)
# Full float32 on both sides: cuDNN, and so PyTorch's GRU, would round to the ten mantissa bits of TF32.
torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
torch._dynamo.config.recompile_limit = 64  # all heads share one forward function


def grid():
    rows = next(r for r in range(math.isqrt(HOW.tokens), 0, -1) if HOW.tokens % r == 0)
    return rows, HOW.tokens // rows


def batch():
    torch.manual_seed(0)
    shape = HOW.batch, HOW.tokens, HOW.width
    made = torch.rand(shape) * 2 - 1, torch.rand(shape[0], shape[2]) * 2 - 1, torch.arange(shape[0]) * 7 % HOW.classes
    return tuple(tensor.to(DEVICE) for tensor in made)


def compiled(module):
    return torch.compile(module, dynamic=False)


SINKHORN = compiled(sinkhorn)


def compiled_probe(probe):
    """The probe through torch.compile. Compiling Sinkhorn's iterations takes minutes, so they are compiled once for all
    heads that have them; the rest of such a head is small and stays eager."""
    if getattr(getattr(probe.head, "plan", None), "func", None) is sinkhorn:
        probe.head.plan = SINKHORN
        return probe
    return compiled(probe)


class Heads:
    """A training step of some heads, each with its own optimiser, on one batch."""

    def __init__(self, heads, compile):
        self.batch = batch()
        self.probes = [Probe(head, HOW.width, grid(), HOW.classes).to(DEVICE) for head in heads]
        self.forwards = [compiled_probe(probe) if compile else probe for probe in self.probes]
        rule = dict(lr=1e-3, weight_decay=0.0, fused=True)
        self.optimisers = [torch.optim.AdamW(probe.parameters(), **rule) for probe in self.probes]

    def __call__(self):
        for probe, forward, optimiser in zip(self.probes, self.forwards, self.optimisers):
            step(probe, optimiser, *self.batch, forward)


class Cached:
    """An epoch of a head on tokens that are read from a memory-mapped file in float16, and widened on the device."""

    STEPS = 4

    def __init__(self, head, compile):
        self.folder = tempfile.TemporaryDirectory()
        shape = self.STEPS * HOW.batch, HOW.tokens, HOW.width
        self.tokens = np.memmap(Path(self.folder.name) / "tokens", np.float16, "w+", shape=shape)
        for images in range(0, len(self.tokens), HOW.batch):
            self.tokens[images : images + HOW.batch] = np.random.uniform(-1, 1, (HOW.batch, *shape[1:]))
        self.heads = Heads([head], compile)

    def __call__(self):
        heads = self.heads
        _, cls, labels = heads.batch
        for images in torch.randperm(len(self.tokens)).numpy().reshape(self.STEPS, -1):
            tokens = torch.from_numpy(self.tokens[np.sort(images)]).to(DEVICE).float()
            step(heads.probes[0], heads.optimisers[0], tokens, cls, labels, heads.forwards[0])


class Backbone:
    """ViT-B/16 without its pooling layer, from pixels on the host to tokens on the host."""

    def __init__(self, compile, numbers):
        from transformers import ViTConfig, ViTModel

        model = ViTModel(ViTConfig(attn_implementation="sdpa"), add_pooling_layer=False).eval().to(DEVICE, numbers)
        self.model, self.numbers = compiled(model) if compile else model, numbers
        pixels = torch.rand(HOW.photos, 3, 224, 224) * 2 - 1
        self.pixels = pixels if DEVICE.type == "cpu" else pixels.pin_memory()  # as PyTorch's data loader returns them

    @torch.no_grad()
    def __call__(self):
        pixels = self.pixels.to(DEVICE).to(self.numbers)
        return self.model(pixel_values=pixels).last_hidden_state.float().cpu()


class Lookup:
    """One image explained by 16 probes, each on its own thread; what depends on no image is precomputed."""

    def __init__(self, compile):
        tokens, cls, _ = batch()
        self.image = tokens[:1].double(), cls[:1].double(), grid()
        self.probes = probes_of(HOW.width, grid(), HOW.classes)
        for probe in self.probes if compile else []:
            probe.probe = compiled_probe(probe.probe)
            probe.plan = {None: None, sinkhorn: SINKHORN}.get(probe.plan) or (probe.plan and compiled(probe.plan))
        torch.set_num_threads(1)
        self.pool = ThreadPoolExecutor(HOW.threads, initializer=torch.set_num_threads, initargs=(1,))

    def one(self, probe):
        with torch.no_grad():
            return look(probe, *self.image)

    def __call__(self):
        return list(self.pool.map(self.one, self.probes))


def work(name, compile):
    match name.split("/"):
        case ["head", head, "step"]:
            return Heads([head], compile)
        case ["cached", head, "step"]:
            return Cached(head, compile)
        case ["heads", "joint", "step"]:
            return Heads(PAPER, compile)
        case ["backbone", "vit-base", "forward"]:
            return Backbone(compile, torch.float32)
        case ["backbone", "vit-base-bfloat16", "forward"]:
            return Backbone(compile, torch.bfloat16)
        case ["lookup", "16"]:
            return Lookup(compile)
    raise SystemExit(f"there is no work `{name}`")


def rounds(name):
    """Number of runs in a turn; more on a GPU, where a step of a head takes under a millisecond."""
    return HOW.runs or (3 if DEVICE.type == "cpu" else 50 if name.startswith("head/") else 10)


def timed(run, runs):
    """Seconds of each of `runs` calls; on a GPU until its work is done."""
    seconds = []
    for _ in range(runs):
        begun = time.perf_counter()
        run()
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begun)
    return seconds


def ours(name, heads):
    flags = ["--batch", HOW.batch, "--tokens", HOW.tokens, "--width", HOW.width, "--classes", HOW.classes]
    flags += ["--photos", HOW.photos, "--rounds", rounds(name), "--device", HOW.device, "--heads", ",".join(heads)]
    flags += ["--arithmetic", "bfloat16"] if "bfloat16" in name else []
    command = [HOW.ssmprobe, "bench", "--json", "--only", name, *map(str, flags)]
    environment = os.environ | {"RAYON_NUM_THREADS": str(HOW.threads)}
    out = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout
    return next(figure["value"] for figure in json.loads(out) if figure["name"] == name)


def compare(name):
    torch.set_num_threads(HOW.threads)
    heads = [name.split("/")[1]] if name.startswith(("head/", "cached/")) else PAPER
    sides = {"eager": work(name, False)}
    timed(sides["eager"], 1)
    why = "not asked for"
    if not HOW.no_compile:
        try:
            begun = time.perf_counter()
            sides["compiled"] = work(name, True)
            timed(sides["compiled"], 2)
            why = f"{time.perf_counter() - begun:.1f} s to compile"
        except Exception as error:
            sides.pop("compiled", None)
            why = f"torch.compile failed: {str(error).strip().splitlines()[0]}"
    seconds = {side: [] for side in ["ours", *sides]}
    for _ in range(HOW.turns):
        seconds["ours"].append(ours(name, heads))
        for side, run in sides.items():
            # Untimed: one, as ours has; on a GPU, whose clocks fell while it was idle, as many as are timed.
            timed(run, rounds(name) if DEVICE.type == "cuda" else 1)
            seconds[side] += timed(run, rounds(name))
    for side in sides if name.startswith("cached/") else []:
        seconds[side] = [epoch / Cached.STEPS for epoch in seconds[side]]
    medians = {side: statistics.median(values) for side, values in seconds.items()}
    fastest = min(sides, key=medians.get)
    line = {"name": name, "ours": medians["ours"], "pytorch": medians[fastest]}
    line |= {"ratio": medians[fastest] / medians["ours"], "fastest": min(seconds[fastest]) / min(seconds["ours"])}
    line |= {"peer": fastest}
    line |= {"eager": medians["eager"], "compiled": medians.get("compiled"), "note": why}
    rounded = {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in line.items()}
    print(json.dumps(rounded), flush=True)


def names():
    """Names of all works; on a GPU, which may be available for minutes only, the most important first."""
    heads = [f"head/{head}/step" for head in PAPER]
    if DEVICE.type == "cpu":
        return [*heads, "heads/joint/step", "backbone/vit-base/forward", "lookup/16"]
    first = ["backbone/vit-base-bfloat16/forward", "head/gap/step", "head/sinkhorn/step", "heads/joint/step"]
    return [*first, *(head for head in heads if head not in first), "backbone/vit-base/forward"]


if __name__ == "__main__":
    failed = False
    for wanted in HOW.only or names():
        try:
            compare(wanted)
        except Exception as error:  # the others can still be compared
            print(f"{wanted}: {error}", file=sys.stderr)
            failed = True
    sys.exit(failed)
