"""A tiny backbone, probes and images for `ssmprobe inspect`, and the expected results.

Tokens come from transformers; the probes' outputs from float64 code of evidence.py beside
this file, written from the definitions and not from the program.

Run from the repository root, with torch, transformers, pillow, numpy, scipy and safetensors installed:

    python tests/reference/inspect_verb.py

It writes tests/fixtures/inspect/ and gives the same bytes every time.
"""

import json

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from transformers import ViTConfig, ViTModel

import evidence
from place import FIXTURES

HERE = FIXTURES / "inspect"
WIDTH, SIDE, PATCH, CLASSES, STATES = 24, 32, 8, 7, 8
GRID = SIDE // PATCH
N = GRID * GRID
NAMES = ["tench", "crane", "Owl", "crane bird", "church", "chain saw", "gas pump"]
torch.set_default_dtype(torch.float32)


def backbone():
    torch.manual_seed(3)
    config = ViTConfig(
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        image_size=SIDE,
        patch_size=PATCH,
        initializer_range=0.3,
    )
    model = ViTModel(config, add_pooling_layer=False).eval()
    model.save_pretrained(HERE / "backbone")
    preprocessing = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": SIDE, "width": SIDE},
        "resample": 2,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }
    (HERE / "backbone" / "preprocessor_config.json").write_text(json.dumps(preprocessing, indent=2) + "\n")
    return model


def images():
    """Three pictures of the size the backbone reads: nothing is resized. Two share a stem."""
    rng = np.random.default_rng(17)
    for name in ("one.png", "sub/one.png", "sub/two.png"):
        coarse = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        picture = np.asarray(Image.fromarray(coarse).resize((SIDE, SIDE), Image.BICUBIC))
        path = HERE / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(path)
        yield name, picture


def tokens(model, picture):
    pixels = (torch.from_numpy(picture.copy()).permute(2, 0, 1).float() / 255 - 0.5) / 0.5
    with torch.no_grad():
        hidden = model(pixel_values=pixels[None]).last_hidden_state[0].double()
    return hidden[0], hidden[1:]


# ---------------------------------------------------------------- probes: contents of the files


def hippo(states):
    n = torch.arange(states, dtype=torch.float64)
    root = torch.sqrt(2 * n + 1)
    a = -torch.outer(root, root).tril(-1) - torch.diag(n + 1)
    return a, root


def s4(generator, channel):
    a, b = hippo(STATES)
    if channel:
        b = b[:, None] * (1 + 0.3 * torch.randn(STATES, WIDTH, generator=generator))
    c = torch.randn(*((WIDTH, STATES) if channel else (STATES,)), generator=generator)
    d = torch.randn(WIDTH if channel else 1, generator=generator)
    return {"A": a, "B": b, "C": c, "D": d, "dt": torch.tensor([0.06])}


def probe(head, config, arrays, features=WIDTH, name=None, generator=None):
    arrays = dict(arrays)
    arrays["classifier.weight"] = torch.randn(CLASSES, features, generator=generator)
    arrays["classifier.bias"] = torch.randn(CLASSES, generator=generator)
    arrays = {key: value.contiguous() if key == "order" else value.float().contiguous() for key, value in arrays.items()}
    meta = {
        "format": 1,
        "head": head,
        "config": config,
        "backbone": {"id": "tiny", "model_type": "vit", "hidden_size": WIDTH},
        "classes": NAMES,
    }
    (HERE / "probes").mkdir(parents=True, exist_ok=True)
    save_file(arrays, HERE / "probes" / f"{name or head}.safetensors", {"ssmprobe": json.dumps(meta)})
    return name or head, head, config, {key: value.double() for key, value in arrays.items()}


def probes():
    generator = torch.Generator().manual_seed(23)
    rand = lambda *shape: torch.randn(*shape, generator=generator)
    make = lambda *args, **more: probe(*args, **more, generator=generator)
    scorer = lambda: {"scorer.weight": rand(1, WIDTH)}
    sweep = lambda at, channel=False: {f"s4.{at}.{k}": v for k, v in s4(generator, channel).items()}
    base = {"state_dim": STATES, "sharing": "shared"}
    channel = {"state_dim": STATES, "sharing": "channel"}
    yield make("sinkhorn", base | {"temperature": 0.1, "iterations": 20}, scorer() | sweep(0))
    yield make("sinkhorn", channel | {"temperature": 0.2}, scorer() | sweep(0, True), name="sinkhorn-channel")
    yield make("neuralsort", base, scorer() | sweep(0))
    yield make("softsort", base | {"power": 1, "temperature": 0.3}, scorer() | sweep(0))
    yield make("vmamba", base, sweep(0) | sweep(1) | sweep(2) | sweep(3))
    yield make("vmamba", channel, sweep(0, True) | sweep(1, True) | sweep(2, True) | sweep(3, True), name="vmamba-channel")
    order = torch.randperm(N, generator=generator)
    yield make("random-fixed", base, sweep(0) | {"order": order})
    yield make("gap", {}, {})
    yield make("cls", {}, {})
    yield make("attention", {}, {"query": rand(WIDTH)})
    conv = {"conv.weight": rand(192, WIDTH, 5) / 10, "conv.bias": rand(192)}
    yield make("sinkhorn-conv", {}, scorer() | conv, features=192)


# ---------------------------------------------------------------- their outputs for tokens


def orders(head, arrays):
    raster = torch.arange(N)
    columns = raster.reshape(GRID, GRID).T.flatten()
    if head == "vmamba":
        return [raster, raster.flip(0), columns, columns.flip(0)]
    return [arrays["order"].long()]


def reading(head, config, arrays, cls, patches, row, bias):
    """(arrays of the NPZ, features [F], constant part of the logit, plan or None)"""
    found, plan = {}, None
    if "scorer.weight" in arrays:
        scores = evidence.standardised((patches @ arrays["scorer.weight"][0]).numpy())
        found["scores"] = torch.tensor(scores)
        tau = config.get("temperature")
        if head.startswith("sinkhorn"):
            plan = evidence.sinkhorn(scores, tau or 0.1, config.get("iterations", 20))
        elif head == "neuralsort":
            plan = evidence.neuralsort(scores, tau or 1.0)
        else:
            plan = evidence.softsort(scores, config.get("power", 2), tau or 1.0)
        plan = torch.tensor(plan)
        found["plan"] = plan
    if head == "cls":
        return found, cls, None, None
    if head in ("gap", "attention"):
        weight = torch.full((N,), 1 / N, dtype=torch.float64)
        if head == "attention":
            weight = torch.softmax(patches @ arrays["query"] / WIDTH**0.5, 0)
        found["token_weight"] = weight
        read = lambda r: (weight[:, None] * r).sum(0)
        result = evidence.explain(patches, row, bias, [(torch.eye(N, dtype=torch.float64), read)])
        found["evidence_token"] = torch.tensor(result["token"])
        return found, read(patches), result["constant"], None
    if head == "sinkhorn-conv":
        weight, conv_bias = arrays["conv.weight"], arrays["conv.bias"]
        read = lambda r: torch.nn.functional.conv1d(r.T[None], weight, conv_bias, padding=2)[0].mean(1)
        sweeps, mix, memories = [(plan, read)], row @ conv_bias, []
    else:
        plans = [plan] if plan is not None else [evidence.permutation_plan(o.tolist()).double() for o in orders(head, arrays)]
        memories = [
            evidence.Memory(*(arrays[f"s4.{at}.{k}"] for k in "ABCD"), float(arrays[f"s4.{at}.dt"]))
            for at in range(len(plans))
        ]
        sweeps, mix = [(p, m.read) for p, m in zip(plans, memories)], torch.zeros(1, dtype=torch.float64)[0]
        if plan is None:
            found["orders"] = torch.stack(orders(head, arrays)).double()
        found["kernel"] = memories[0].kernel(N)
        if len(memories) > 1:
            found["kernels"] = torch.stack([memory.kernel(N) for memory in memories])
        if plan is not None:
            unrouted = [(torch.eye(N, dtype=torch.float64), memories[0].read)]
            found["evidence_position_raster"] = torch.tensor(evidence.explain(patches, row, bias, unrouted)["position"])
        if memories[0].b.dim() == 1:
            found["token_weight"] = sum(p @ m.gain(N) for p, m in zip(plans, memories)) / len(plans)
        both = evidence.proxy(patches, row, plans, [m.radius for m in memories])
        found["evidence_proxy"] = torch.tensor(both["proxy"])
        found["evidence_proxy_raster"] = torch.tensor(both["proxy_raster"])
    result = evidence.explain(patches, row, bias, sweeps, mix)
    found["evidence_token"] = torch.tensor(result["token"])
    found["evidence_position"] = torch.tensor(result["position"])
    features = sum(read(p.T @ patches) for p, read in sweeps) / len(sweeps)
    return found, features, result["constant"], plan


def main():
    torch.set_default_dtype(torch.float32)
    model = backbone()
    everything, said = {}, {}
    pictures = [(name, *tokens(model, picture)) for name, picture in images()]
    torch.set_default_dtype(torch.float64)
    for name, head, config, arrays in probes():
        for image, cls, patches in pictures:
            weight, bias = arrays["classifier.weight"], arrays["classifier.bias"]
            _, features, _, _ = reading(head, config, arrays, cls, patches, weight[0], bias[0])
            logits = weight @ features + bias
            best = int(logits.argmax())
            found, _, constant, plan = reading(head, config, arrays, cls, patches, weight[best], bias[best])
            found["logits"] = logits
            for key, value in found.items():
                everything[f"{image}:{name}:{key}"] = value.double().contiguous()
            said[f"{image}:{name}"] = {
                "head": head,
                "best": best,
                "probability": torch.softmax(logits, 0)[best].item(),
                "bias": bias[best].item() if constant is None else constant,
                "diagnostics": {} if plan is None else evidence.diagnostics(plan.numpy(), GRID, GRID),
            }
    for image, cls, patches in pictures:
        everything[f"{image}::cls"], everything[f"{image}::tokens"] = cls.contiguous(), patches.contiguous()
    save_file(everything, HERE / "expected.safetensors")
    (HERE / "expected.json").write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()
