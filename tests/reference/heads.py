"""Writes tests/fixtures/heads: every head, written from docs/definitions.md alone, in float64 PyTorch.

Run from the root of the repository, with PyTorch and safetensors installed:

    python tests/reference/heads.py

`<head>[-channel].safetensors` are probe files (half precision, so that they are small and exact in
any precision); `expected.safetensors` holds, under `<file>/<grid>/`, the output of each for the tokens of
that grid (`<grid>/...` in `tokens.safetensors`): logits, and the gradient of the mean cross-entropy for every
parameter. Gradients of more than 4096 values are kept at every seventh value. Where the
program trains another quantity than the file holds (the step size, through softplus), the gradient
is that of the trained quantity. Deterministic.

`attribution.safetensors` holds under the same names gradient x token and integrated gradients `[3, N]` of one logit of
every image (section 11), and the error of their completeness `[3]`.
"""

import json
import math

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

from place import FIXTURES

OUT = FIXTURES / "heads"
D, C, S, B, SEED = 24, 5, 16, 3, 7
GRIDS = {"3x3": (3, 3), "2x6": (2, 6)}
LABELS = torch.tensor([0, 3, 1])
ASKED = torch.tensor([2, 0, 4])  # the classes of attributions
# The orders of `random-dynamic` for seed 7 and the images 0, 1, 2, as the program draws them.
DYNAMIC = {
    9: [[7, 1, 6, 3, 0, 2, 4, 8, 5], [5, 0, 4, 2, 8, 1, 7, 6, 3], [5, 2, 8, 7, 1, 4, 6, 3, 0]],
    12: [
        [7, 1, 6, 9, 0, 2, 10, 8, 11, 3, 4, 5],
        [5, 0, 4, 2, 8, 10, 7, 9, 3, 6, 11, 1],
        [5, 2, 8, 7, 1, 4, 11, 3, 0, 9, 6, 10],
    ],
}
FIXED = [5, 0, 11, 3, 8, 1, 10, 2, 7, 4, 9, 6]


# ---- section 2: orders ---------------------------------------------------------------------------

def both(order):
    return [order, order[::-1]]


def transposed(order, rows, cols):
    """An order of the transposed grid (cols x rows), in token numbers of the grid itself."""
    return [(i % rows) * cols + i // rows for i in order]


def rows_of(rows, cols):
    return [[r * cols + c for c in range(cols)] for r in range(rows)]


def raster(rows, cols):
    return sum(rows_of(rows, cols), [])


def snake(rows, cols):
    return sum([row if r % 2 == 0 else row[::-1] for r, row in enumerate(rows_of(rows, cols))], [])


def diagonal(rows, cols, mirrored):
    order = []
    for total in range(rows + cols - 1):
        for r in range(rows):
            c = total - r
            if 0 <= c < cols:
                order.append(r * cols + (cols - 1 - c if mirrored else c))
    return order


def spiral(rows, cols):
    seen, order, (r, c), (dr, dc) = set(), [], (0, 0), (0, 1)
    while len(order) < rows * cols:
        order.append(r * cols + c)
        seen.add((r, c))
        step = (r + dr, c + dc)
        if not (0 <= step[0] < rows and 0 <= step[1] < cols) or step in seen:
            dr, dc = dc, -dr
        r, c = r + dr, c + dc
    return order


def scan_orders(head, rows, cols):
    if head == "raster":
        return [raster(rows, cols)]
    if head == "vmamba":
        return both(raster(rows, cols)) + both(transposed(raster(cols, rows), rows, cols))
    if head == "snake":
        return both(snake(rows, cols)) + both(transposed(snake(cols, rows), rows, cols))
    if head == "diagonal":
        return both(diagonal(rows, cols, False)) + both(diagonal(rows, cols, True))
    if head == "spiral":
        return both(spiral(rows, cols))
    # Hilbert's curve beyond powers of two is a convention: these are given, not derived.
    hilbert = {(3, 3): [0, 3, 6, 7, 8, 5, 4, 1, 2], (2, 6): [0, 6, 7, 1, 2, 8, 9, 3, 4, 10, 11, 5]}
    return both(hilbert[rows, cols])


def standardised(scores):
    return (scores - scores.mean(1, keepdim=True)) / (scores.std(1, correction=0, keepdim=True) + 1e-6)


def sinkhorn(s, tau, iterations):
    n = s.shape[1]
    p = torch.arange(n, dtype=s.dtype) / (n - 1)
    log_kernel = -((s[:, :, None] - p) ** 2) / tau
    g = torch.zeros(s.shape[0], n, dtype=s.dtype)
    for _ in range(iterations):
        f = -torch.logsumexp(log_kernel + g[:, None, :], 2)
        g = -torch.logsumexp(log_kernel + f[:, :, None], 1)
    return torch.exp(log_kernel + f[:, :, None] + g[:, None, :])


def neuralsort(s, tau):
    n = s.shape[1]
    total = (s[:, :, None] - s[:, None, :]).abs().sum(2)
    r = torch.arange(1, n + 1, dtype=s.dtype)
    relaxed = torch.softmax(((n + 1 - 2 * r)[None, :, None] * s[:, None, :] - total[:, None, :]) / tau, 2)
    return relaxed.flip(1).transpose(1, 2)  # P[i, k] = R[N - k, i]


def softsort(s, tau, power):
    a = s.sort(1).values
    return torch.softmax(-((a[:, None, :] - s[:, :, None]).abs() ** power) / tau, 1)


TRAINING = True  # whether a hard choice has the gradient with which it is trained


def chosen(hard, soft):
    return hard + soft - soft.detach() if TRAINING else hard


def hard_sort(s, tau):
    hard = F.one_hot(s.argsort(1), s.shape[1]).transpose(1, 2).to(s.dtype)
    return chosen(hard, softsort(s, tau, 1))


def plan(head, s, config):
    if head in ("sinkhorn", "gumbel-sinkhorn", "sinkhorn-conv", "sinkhorn-gap"):
        return sinkhorn(s, config["temperature"], config["iterations"])
    if head == "neuralsort":
        return neuralsort(s, config["temperature"])
    if head == "softsort":
        return softsort(s, config["temperature"], config["power"])
    return hard_sort(s, config["temperature"])


# ---- section 3: S4, by its recurrence ------------------------------------------------------------

def s4(values, group, sequence, config):
    """The last output of the recurrence over `sequence` [B, N, d]."""
    a, b, c, d = (values[f"s4.{group}.{x}"] for x in "ABCD")
    dt = F.softplus(values[f"s4.{group}.dt"])
    eye = torch.eye(S, dtype=a.dtype)
    a = torch.tril(a)
    b = b[:, None] if b.dim() == 1 else b  # [S, 1 or d]
    if config.get("discretization") == "zoh":
        a_bar = torch.linalg.matrix_exp(dt * a)
        b_bar = torch.linalg.solve(a, (a_bar - eye) @ b)
    else:
        a_bar = torch.linalg.solve(eye - dt / 2 * a, eye + dt / 2 * a)
        b_bar = torch.linalg.solve(eye - dt / 2 * a, dt * b)
    state = torch.zeros(sequence.shape[0], S, sequence.shape[2], dtype=a.dtype)
    for x in sequence.unbind(1):
        state = a_bar @ state + b_bar * x[:, None, :]
    read = torch.einsum("s,bsd->bd", c, state) if c.dim() == 1 else torch.einsum("ds,bsd->bd", c, state)
    return read + d * sequence[:, -1]


# ---- section 4: heads ----------------------------------------------------------------------------

def loaded(module, values, prefix):
    """The module, run with `values` as its parameters."""
    own = {name: values[prefix + name] for name, _ in module.named_parameters()}
    return lambda *x: torch.func.functional_call(module.double(), own, x)


def features(head, values, config, tokens, cls, grid):
    """The features that the classifier reads."""
    z = read(head, values, config, tokens, cls, grid)
    return batch_norm(values).eval()(z) if "norm.running_mean" in values else z


def read(head, values, config, tokens, cls, grid):
    """The features of a head before a normalisation."""
    rows, cols = GRIDS[grid]
    n = rows * cols
    if "scorer.weight" in values:
        s = standardised(F.linear(tokens, values["scorer.weight"])[..., 0])
    pooled = lambda weight: torch.einsum("bn,bnd->bd", weight, tokens)
    if head in ("gap", "linear-bn"):
        return tokens.mean(1)
    if head == "cls":
        return cls
    if head == "cls-mean":
        return torch.cat([cls, tokens[:, :, -(D // config.get("blocks", 1)) :].mean(1)], 1)
    if head == "attention":
        return pooled(torch.softmax(tokens @ values["query"] / math.sqrt(D), 1))
    if head == "content":
        return pooled(torch.softmax(s, 1))
    if head == "topk":
        k = min(config["k"], n)
        best = torch.zeros_like(s).scatter(1, s.topk(k, 1).indices, 1 / k)
        return pooled(chosen(best, torch.softmax(s, 1)))
    if head == "transformer":
        layer = nn.TransformerEncoderLayer(D, config["heads"], 192, dropout=0.0, batch_first=True)
        sequence = torch.cat([values["cls"].expand(B, 1, D), tokens], 1)
        return loaded(layer.train(), values, "encoder.")(sequence)[:, 0]
    if head == "deepsets":
        phi = loaded(nn.Sequential(nn.Linear(D, 192), nn.ReLU(), nn.Linear(192, D)), values, "phi.")
        return loaded(nn.LayerNorm(D), values, "norm.")(phi(tokens)).mean(1)
    if head == "bi-gru":
        gru = nn.GRU(D, 128, batch_first=True, bidirectional=True)
        _, last = loaded(gru, values, "gru.")(tokens)
        return torch.cat([last[0], last[1]], 1)
    if head == "efficient":
        share = torch.softmax(torch.einsum("md,bnd->bmn", values["query"], tokens) / math.sqrt(D), 2)
        value = (tokens @ values["value.weight"].T).unflatten(2, (config["queries"], -1))
        return torch.einsum("bmn,bnme->bme", share, value).flatten(1)
    if head == "abmilp":
        weight, _, pooled_from = abmilp(values, config, tokens)
        return torch.einsum("bn,bnd->bd", weight, pooled_from)
    if head == "simpool":
        x = loaded(nn.LayerNorm(D, eps=1e-6), values, "norm_patches.")(tokens)
        asked = F.linear(tokens.mean(1), values["wq.weight"])
        share = torch.softmax((F.linear(x, values["wk.weight"]) @ asked[:, :, None])[..., 0] / math.sqrt(D), 1)
        if "gamma" in config:
            # For each image by itself; in the original the minimum is that of the batch.
            x = torch.stack([(image - image.min() + 1e-6) ** config["gamma"] for image in x])
        mean = torch.einsum("bn,bnd->bd", share, x)
        return mean ** (1 / config["gamma"]) if "gamma" in config else mean
    if head == "coca":
        x = loaded(nn.LayerNorm(D), values, "ln_k.")(tokens)
        query = loaded(nn.LayerNorm(D), values, "ln_q.")(values["query"])
        attend = loaded(nn.MultiheadAttention(D, config["heads"], batch_first=True), values, "attn.")
        return attend(query.expand(len(x), 1, D), x, x)[0][:, 0]
    if head == "v-jepa":
        return v_jepa(values, config["heads"], tokens)
    if head in ROUTED:
        routed = plan(head, s, config).transpose(1, 2) @ tokens
        if head == "sinkhorn-conv":
            conv = loaded(nn.Conv1d(D, 192, 5, padding="same"), values, "conv.")
            return conv(routed.transpose(1, 2)).mean(2)
        return routed.mean(1) if head == "sinkhorn-gap" else s4(values, 0, routed, config)
    if head == "random-fixed":
        return s4(values, 0, tokens[:, values["order"].long()], config)
    if head == "random-dynamic":
        return s4(values, 0, torch.stack([t[o] for t, o in zip(tokens, DYNAMIC[n])]), config)
    orders = scan_orders(head, rows, cols)
    return torch.stack([s4(values, g, tokens[:, order], config) for g, order in enumerate(orders)]).mean(0)


def abmilp(values, config, tokens):
    """Weights [B, N], the self-attention before them [B, N, N] or None, and the tokens that are weighted [B, N, d]."""
    front, attention, read = config.get("self_attention", "none"), None, tokens
    if front != "none":
        query, key, value = F.linear(tokens, values["self_attn.qkv.weight"]).chunk(3, 2)
        attention = torch.softmax(query @ key.transpose(1, 2) * D**-0.5, 2)
        read = F.linear(attention @ value, values["self_attn.proj.weight"], values["self_attn.proj.bias"])
    first, last = (loaded(nn.Linear(D, width), values, f"attention_predictor.{i}.") for i, width in ((0, D), (2, 1)))
    hidden = torch.tanh(first(read))
    if config.get("gate"):
        hidden = hidden * torch.sigmoid(F.linear(read, values["attention_gate.weight"], values["attention_gate.bias"]))
    return torch.softmax(last(hidden)[..., 0], 1), attention, read if front == "both" else tokens


def v_jepa(values, heads, tokens):
    """A query through a block of cross-attention, key by key."""
    block = {name.removeprefix("cross_attention_block."): v for name, v in values.items()}
    linear = lambda name, x: F.linear(x, block[f"{name}.weight"], block[f"{name}.bias"])
    norm = lambda name, x: F.layer_norm(x, (D,), block[f"{name}.weight"], block[f"{name}.bias"])
    asked = values["query_tokens"].expand(len(tokens), 1, D)
    apart = lambda x: x.unflatten(2, (heads, -1)).transpose(1, 2)
    key, value = linear("xattn.kv", norm("norm1", tokens)).chunk(2, 2)
    query, key, value = (apart(x) for x in (linear("xattn.q", asked), key, value))
    share = torch.softmax(query @ key.transpose(2, 3) / math.sqrt(D // heads), 3)
    read = asked + (share @ value).transpose(1, 2).flatten(2)
    return (read + linear("mlp.fc2", F.gelu(linear("mlp.fc1", norm("norm2", read)))))[:, 0]


def batch_norm(values):
    norm = nn.BatchNorm1d(len(values["norm.running_mean"]), eps=1e-6, affine=False).double()
    norm.running_mean, norm.running_var = values["norm.running_mean"].clone(), values["norm.running_var"].clone()
    return norm


ROUTERS = ["sinkhorn", "neuralsort", "softsort", "hard-sort", "gumbel-sinkhorn"]
ROUTED = ROUTERS + ["sinkhorn-conv", "sinkhorn-gap"]
SCANS = {"raster": 1, "vmamba": 4, "snake": 4, "diagonal": 4, "hilbert": 2, "spiral": 2, "random-fixed": 1, "random-dynamic": 1}
OTHERS = ["gap", "cls", "attention", "content", "topk", "sinkhorn-conv", "sinkhorn-gap", "transformer", "deepsets", "bi-gru", "linear-bn", "efficient"]


def start(head, sharing, kind=""):
    """Parameters by their names in the file, and the settings; `kind`: `norm` with batch normalisation, `gamma` with SimPool's exponent, `blocks` of concatenated layers;
    `gate`, `map` of AbMILP, and `both` with all of it."""
    normal = lambda *shape: torch.randn(*shape, dtype=torch.float64)
    values, config = {}, {}
    if head in ROUTED + ["content", "topk"]:
        values["scorer.weight"] = normal(1, D) / math.sqrt(D)
    if head in ROUTED:
        config["temperature"] = 0.1 if "sinkhorn" in head else 0.8
        if "sinkhorn" in head:
            config["iterations"] = 4  # few, so that rows are far from exact and gradients from zero
        if head == "softsort":
            config["power"] = 2
    for g in range(SCANS.get(head, 1 if head in ROUTERS else 0)):
        config |= {"state_dim": S, "sharing": sharing}
        n = torch.arange(S, dtype=torch.float64)
        width = [] if sharing == "shared" else [D]
        a = -torch.tril(torch.sqrt(torch.outer(2 * n + 1, 2 * n + 1)), -1) - torch.diag(n + 1)
        values[f"s4.{g}.A"] = a * (1 + 0.1 * normal(S, S))
        values[f"s4.{g}.B"] = torch.sqrt(2 * n + 1).reshape([S] + [1] * len(width)) * (1 + 0.1 * normal(S, *width))
        values[f"s4.{g}.C"] = normal(*width, S) / math.sqrt(S)
        values[f"s4.{g}.D"] = 0.3 * normal(*(width or [1]))
        values[f"s4.{g}.dt"] = torch.tensor([0.03 + 0.02 * g], dtype=torch.float64)
    if head.startswith("random"):
        config["seed"] = SEED
    if head == "random-fixed":
        values["order"] = torch.tensor(FIXED)
    if head == "attention":
        values["query"] = normal(D)
    if head == "topk":
        config["k"] = 4
    if head == "sinkhorn-conv":
        values |= {"conv.weight": normal(192, D, 5) / 11, "conv.bias": normal(192)}
    if head == "transformer":
        config["heads"] = 12
        values["cls"] = normal(1, 1, D)
        for name, p in nn.TransformerEncoderLayer(D, 12, 192).named_parameters():
            values["encoder." + name] = p.detach().double() + 0.1 * normal(*p.shape)
    if head == "deepsets":
        for name, shape in [("phi.0.weight", (192, D)), ("phi.0.bias", (192,)), ("phi.2.weight", (D, 192)), ("phi.2.bias", (D,))]:
            values[name] = normal(*shape) / 5
        values |= {"norm.weight": 1 + 0.2 * normal(D), "norm.bias": 0.2 * normal(D)}
    if head == "bi-gru":
        for name, p in nn.GRU(D, 128, bidirectional=True).named_parameters():
            values["gru." + name] = p.detach().double()
    width = {"sinkhorn-conv": 192, "bi-gru": 256, "cls-mean": 2 * D}.get(head, D)
    if kind == "blocks":
        config["blocks"] = 4
        width = D + D // 4
    if head == "abmilp":
        values |= {"attention_predictor.0.weight": normal(D, D) / 5, "attention_predictor.0.bias": 0.3 * normal(D)}
        values |= {"attention_predictor.2.weight": normal(1, D) / 2, "attention_predictor.2.bias": normal(1)}
    if kind in ("gate", "both"):
        config["gate"] = True
        values |= {"attention_gate.weight": normal(D, D) / 5, "attention_gate.bias": 0.3 * normal(D)}
    if kind in ("map", "both"):
        config["self_attention"] = kind
        values |= {"self_attn.qkv.weight": normal(3 * D, D) / 4}
        values |= {"self_attn.proj.weight": normal(D, D) / 5, "self_attn.proj.bias": 0.3 * normal(D)}
    if head == "simpool":
        values |= {"norm_patches.weight": 1 + 0.2 * normal(D), "norm_patches.bias": 0.2 * normal(D)}
        values |= {"wq.weight": normal(D, D), "wk.weight": normal(D, D)}
        if kind == "gamma":
            config["gamma"] = 1.25
    if head == "coca":
        config["heads"] = 8
        values["query"] = normal(1, D)
        for norm in ("ln_q", "ln_k"):
            values |= {f"{norm}.weight": 1 + 0.2 * normal(D), f"{norm}.bias": 0.2 * normal(D)}
        for name, p in nn.MultiheadAttention(D, 8).named_parameters():
            values["attn." + name] = 2 * p.detach().double() + 0.1 * normal(*p.shape)
    if head == "v-jepa":
        config["heads"] = 12
        values["query_tokens"] = normal(1, 1, D)
        for name in ("norm1", "norm2"):
            values |= {f"cross_attention_block.{name}.{w}": m + 0.2 * normal(D) for w, m in (("weight", 1), ("bias", 0))}
        for name, inner, outer in (("xattn.q", D, D), ("xattn.kv", D, 2 * D), ("mlp.fc1", D, 4 * D), ("mlp.fc2", 4 * D, D)):
            values[f"cross_attention_block.{name}.weight"] = normal(outer, inner) / 5
            values[f"cross_attention_block.{name}.bias"] = 0.2 * normal(outer)
    if head == "efficient":
        config["queries"] = 4
        if kind == "norm":
            config["width"] = width = D // 2
        values |= {"query": normal(4, D), "value.weight": normal(width, D) / 5}
    if kind in ("norm", "both"):
        config["norm"] = "batch"
    if head == "linear-bn" or kind in ("norm", "both"):
        values |= {"norm.running_mean": 0.3 * normal(width), "norm.running_var": 0.5 + normal(width).abs()}
    values["classifier.weight"] = normal(C, width) / math.sqrt(width)
    values["classifier.bias"] = normal(C)
    # All sides compute with the values as rounded to half precision.
    return {name: v if name == "order" else v.half().double() for name, v in values.items()}, config


def thinned(gradient):
    flat = gradient.flatten()
    return (flat[::7] if flat.numel() > 4096 else flat).float()


def attributions(head, values, config, patches, cls, grid):
    """Section 11, by autograd through the heads above. `values` as in the leaves of training."""
    global TRAINING
    TRAINING = False
    rows, weight = torch.arange(B), values["classifier.weight"].detach()
    constants = {name: v.detach() for name, v in values.items()}

    def asked(tokens):
        z = features(head, constants, config, tokens, cls, grid)
        return F.linear(z, weight, constants["classifier.bias"])[rows, ASKED]  # [B]

    def gradient(tokens):
        tokens = tokens.clone().requires_grad_()
        return torch.autograd.grad(asked(tokens).sum(), tokens)[0]

    mean = patches.mean(1, keepdim=True).expand_as(patches)
    way = patches - mean
    points = [(m + 0.5) / 64 for m in range(64)]
    integrated = (way * sum(gradient(mean + share * way) for share in points) / 64).sum(2)
    found = {
        "gradient": (patches * gradient(patches)).sum(2),
        "integrated": integrated,
        "completeness_error": integrated.sum(1) - (asked(patches) - asked(mean)),
    }
    found["completeness_error"][found["completeness_error"].abs() < 1e-10] = 0  # rounding
    TRAINING = True
    return found


def main():
    torch.set_num_threads(1)  # the tensors are small
    torch.manual_seed(20240)
    OUT.mkdir(parents=True, exist_ok=True)
    expected, tokens, drawn, attributed = {}, {}, {}, {}
    for grid, (rows, cols) in GRIDS.items():
        patches, cls = torch.randn(B, rows * cols, D), torch.randn(B, D)
        drawn |= {f"{grid}/patches": patches, f"{grid}/cls": cls}
        tokens[grid] = (patches.double(), cls.double())
    save_file(drawn, OUT / "tokens.safetensors")
    heads = [(head, "shared") for head in OTHERS]
    heads += [(head, sharing) for head in [*SCANS, *ROUTERS] for sharing in ("shared", "channel")]
    heads = [(head, sharing, "") for head, sharing in heads]
    heads += [("sinkhorn", "shared", "zoh"), ("raster", "channel", "zoh")]
    heads += [("efficient", "shared", "norm")]
    heads += [(head, "shared", "") for head in ("cls-mean", "abmilp", "simpool", "coca", "v-jepa")]
    heads += [("abmilp", "shared", "norm"), ("coca", "shared", "norm"), ("simpool", "shared", "gamma")]
    heads += [("cls-mean", "shared", "blocks")]
    heads += [("abmilp", "shared", kind) for kind in ("gate", "map", "both")]
    for head, sharing, kind in heads:
        stem = head + ("-channel" if sharing == "channel" else "") + ("-" + kind if kind else "")
        values, config = start(head, sharing, kind)
        config |= {"discretization": kind} if kind == "zoh" else {}
        meta = {
            "format": 1,
            "head": head,
            "config": config,
            "backbone": {"id": "reference", "model_type": "none", "hidden_size": D},
            "classes": [f"class {c}" for c in range(C)],
        }
        stored = {name: v.clone() if name == "order" else v.half() for name, v in values.items()}
        save_file(stored, OUT / f"{stem}.safetensors", {"ssmprobe": json.dumps(meta)})
        for grid in ["2x6"] if head == "random-fixed" else GRIDS:
            buffers = ["order"] + [f"norm.running_{x}" for x in ("mean", "var")]
            buffers += [f"s4.{g}.A" for g in range(4)] if sharing == "channel" else []
            leaves = {}
            for name, v in values.items():
                # The step is trained through softplus.
                leaf = torch.log(torch.expm1(v)) if name.endswith(".dt") else v.clone()
                leaves[name] = leaf if name in buffers else leaf.requires_grad_()
            z = features(head, leaves, config, *tokens[grid], grid)
            logits = F.linear(z, leaves["classifier.weight"], leaves["classifier.bias"])
            F.cross_entropy(logits, LABELS).backward()
            expected[f"{stem}/{grid}/logits"] = logits.detach()
            for name, leaf in leaves.items():
                if leaf.requires_grad:
                    expected[f"{stem}/{grid}/grad/{name}"] = thinned(leaf.grad)
            if head != "cls":
                with torch.random.fork_rng():  # modules have random initial values
                    found = attributions(head, leaves, config, *tokens[grid], grid)
                attributed |= {f"{stem}/{grid}/{name}": value.detach() for name, value in found.items()}
            if "norm.running_mean" in values:
                norm = batch_norm(values).train()
                z = norm(read(head, values, config, *tokens[grid], grid))
                logits = F.linear(z, values["classifier.weight"], values["classifier.bias"])
                expected[f"{stem}/{grid}/training_logits"] = logits
                expected[f"{stem}/{grid}/running_mean"] = norm.running_mean.clone()
                expected[f"{stem}/{grid}/running_var"] = norm.running_var.clone()
    save_file({k: v.contiguous() for k, v in expected.items()}, OUT / "expected.safetensors")
    save_file({k: v.contiguous() for k, v in attributed.items()}, OUT / "attribution.safetensors")


if __name__ == "__main__":
    main()
