"""Losses, gradients and steps of both pre-trainings in float64 PyTorch, for `src/model/pretrain/tests.rs`: a pre-norm ViT with
fixed positions, written from the papers (Dosovitskiy et al. 2021; He et al. 2022) and from the sizes that the guide names.

    python tests/reference/pretraining.py

Needs torch and numpy. Writes tests/fixtures/pretraining/steps.json: for `masked` and `supervised` the `losses` of four steps of
AdamW on the same pictures, and `gradients`: of every parameter before the first, its first and last value and its length.

The inputs are not stored: `hash(name, i)` is the formula of backbones.py. Pictures `[B, N, P]` are hash("patches", i)
in float32; which patches are seen follows from the order of hash("order.b", i); picture b is of class b. Parameters are
hash(name, i) times 0.1 (matrices and tokens) or 0.05 (biases), of layer norms 1 plus a tenth of it, all in float32.
"""

import json
import math

import numpy as np
import torch
from torch.nn.functional import cross_entropy, gelu, layer_norm, linear

from place import FIXTURES

PATCH, GRID, WIDTH, LAYERS, BATCH, CLASSES, MASKED = 4, 4, 64, 2, 3, 3, 0.75
TOKENS, PIXELS = GRID**2, 3 * PATCH**2
DECODER_WIDTH, DECODER_LAYERS = 64, 2
RATES, DECAY, FLAT = [1e-3, 2e-3, 5e-4, 1e-3], 0.1, 1e-6


def hashed(name, count):
    seed = 0x811C9DC5
    for byte in name.encode():
        seed = (seed ^ byte) * 0x01000193 % 2**32
    x = (np.arange(count, dtype=np.uint64) * 0x9E3779B1 + seed) % 2**32
    x ^= x >> 16
    x = x * 0x7FEB352D % 2**32
    x ^= x >> 15
    x = x * 0x846CA68B % 2**32
    x ^= x >> 16
    return x / 2**31 - 1


def single(values):
    """Rounded to float32, held in float64."""
    return torch.tensor(np.asarray(values, dtype=np.float32), dtype=torch.float64)


def positions(width):
    """Sine and cosine of column, then of row, at width / 4 wave lengths from 1 to almost 20; zeros for CLS."""
    waves = 20.0 ** (np.arange(width // 4) / (width // 4))
    rows = [np.zeros(width)]
    for token in range(TOKENS):
        at = [place / waves for place in (token % GRID, token // GRID)]
        rows.append(np.concatenate([f(a) for a in at for f in (np.sin, np.cos)]))
    return single(rows)


class Parameters(dict):
    """Parameters by name, created on first use."""

    def of(self, name, *shape):
        if name not in self:
            values = hashed(name, math.prod(shape)).reshape(shape)
            is_norm = "norm" in name and name.endswith(".weight")
            scale = 0.05 if name.endswith(".bias") else 0.1
            self[name] = torch.nn.Parameter(single(1 + 0.1 * values if is_norm else scale * values))
        return self[name]

    def linear(self, name, x, out):
        return linear(x, self.of(f"{name}.weight", out, x.shape[-1]), self.of(f"{name}.bias", out))

    def norm(self, name, x):
        width = x.shape[-1]
        return layer_norm(x, (width,), self.of(f"{name}.weight", width), self.of(f"{name}.bias", width), 1e-12)

    def block(self, name, x):
        batch, tokens, width = x.shape
        normed = self.norm(f"{name}.layernorm_before", x)
        parts = (self.linear(f"{name}.attention.attention.{part}", normed, width) for part in ("query", "key", "value"))
        q, k, v = (part.reshape(batch, tokens, width // 32, 32).transpose(1, 2) for part in parts)
        mixed = (q @ k.transpose(2, 3) / math.sqrt(32)).softmax(-1) @ v
        x = x + self.linear(f"{name}.attention.output.dense", mixed.transpose(1, 2).reshape(x.shape), width)
        inner = gelu(self.linear(f"{name}.intermediate.dense", self.norm(f"{name}.layernorm_after", x), 4 * width))
        return x + self.linear(f"{name}.output.dense", inner, width)

    def encode(self, patches, seen):
        """Tokens of the patches `seen` `[B, V]`, CLS first."""
        name, fixed = "embeddings.patch_embeddings.projection", positions(WIDTH)
        weight = self.of(f"{name}.weight", WIDTH, 3, PATCH, PATCH).reshape(WIDTH, PIXELS)
        x = linear(patches, weight, self.of(f"{name}.bias", WIDTH)) + fixed[1:]
        x = x.gather(1, seen[:, :, None].expand(-1, -1, WIDTH))
        cls = (self.of("embeddings.cls_token", 1, 1, WIDTH) + fixed[0]).expand(len(x), 1, WIDTH)
        x = torch.cat([cls, x], 1)
        for layer in range(LAYERS):
            x = self.block(f"encoder.layer.{layer}", x)
        return self.norm("layernorm", x)


def masked(parameters, patches):
    """Mean squared error of hidden patches whose pixels were standardised, patch by patch."""
    visible = int(TOKENS * (1 - MASKED))
    orders = [np.argsort(hashed(f"order.{b}", TOKENS), kind="stable") for b in range(BATCH)]
    order = torch.tensor(np.array(orders))
    seen = order[:, :visible]
    x = parameters.linear("decoder.decoder_embed", parameters.encode(patches, seen), DECODER_WIDTH)
    blank = parameters.of("decoder.mask_token", 1, 1, DECODER_WIDTH)
    whole = blank.expand(BATCH, TOKENS, DECODER_WIDTH).clone()
    whole = whole.scatter(1, seen[:, :, None].expand(-1, -1, DECODER_WIDTH), x[:, 1:])
    x = torch.cat([x[:, :1], whole], 1) + positions(DECODER_WIDTH)
    for layer in range(DECODER_LAYERS):
        x = parameters.block(f"decoder.decoder_layers.{layer}", x)
    found = parameters.linear("decoder.decoder_pred", parameters.norm("decoder.decoder_norm", x), PIXELS)[:, 1:]
    target = (patches - patches.mean(2, keepdim=True)) / (patches.var(2, unbiased=False, keepdim=True) + FLAT).sqrt()
    hidden = torch.ones(BATCH, TOKENS).scatter(1, seen, 0.0).bool()
    return ((found - target) ** 2).mean(2)[hidden].mean()


def supervised(parameters, patches):
    """Cross-entropy of the class read from CLS."""
    everything = torch.arange(TOKENS).expand(BATCH, TOKENS)
    logits = parameters.linear("classifier", parameters.encode(patches, everything)[:, 0], CLASSES)
    return cross_entropy(logits, torch.arange(BATCH))


def steps(objective):
    parameters = Parameters()
    patches = single(hashed("patches", BATCH * TOKENS * PIXELS)).reshape(BATCH, TOKENS, PIXELS)
    objective(parameters, patches)  # creates them
    decayed, others = ([p for p in parameters.values() if (p.dim() > 1) == matrix] for matrix in (True, False))
    groups = [{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
    adam = torch.optim.AdamW(groups, betas=(0.9, 0.999), eps=1e-8)
    losses, gradients = [], None
    for rate in RATES:
        for group in adam.param_groups:
            group["lr"] = rate
        adam.zero_grad()
        loss = objective(parameters, patches)
        loss.backward()
        losses.append(loss.item())
        if gradients is None:
            flat = {name: p.grad.flatten() for name, p in parameters.items()}
            gradients = {name: [g[0].item(), g[-1].item(), g.norm().item()] for name, g in flat.items()}
        adam.step()
    return {"losses": losses, "gradients": gradients}


def main():
    folder = FIXTURES / "pretraining"
    folder.mkdir(parents=True, exist_ok=True)
    found = {"masked": steps(masked), "supervised": steps(supervised)}
    (folder / "steps.json").write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
