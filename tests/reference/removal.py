"""Float64 reference for removal curves, written from the definitions (sections 11 and 12) and not from the program.

Every head of `heads.py` reads one image again for every set of tokens that is left: the sequence is cut, the state space
model runs as a recurrence over what remains, other heads are `torch.nn` modules. `frozen` reads the whole sequence with the
plan of all tokens, with removed tokens set to zero: evidence is not used. Pixels are painted over by a sparse direct
solver.

Run from the repository root after `heads.py`:

    python tests/reference/removal.py

It writes tests/fixtures/evidence/removal.json and road.json, the same bytes every time.
"""

import json
import math
from fractions import Fraction

import numpy as np
import torch
from safetensors import safe_open
from scipy.sparse import lil_matrix
from scipy.sparse.linalg import spsolve
from torch import nn
from torch.nn import functional as F

import heads as reference
from place import FIXTURES

HERE = FIXTURES / "evidence"
torch.set_num_threads(1)  # matrices of a few rows
GRID, IMAGE, STEPS, D = "2x6", 1, 5, reference.D


def load(path):
    with safe_open(path, "pt") as file:
        values = {name: file.get_tensor(name).double() for name in file.keys()}
        meta = json.loads(file.metadata()["ssmprobe"])
    if meta["head"] == "cls-mean":
        with safe_open(FIXTURES / "heads" / "tokens.safetensors", "pt") as file:
            values["cls"] = file.get_tensor(f"{GRID}/cls")[IMAGE].double()
    # `heads.s4` takes what is trained: the step before its softplus.
    values = {name: torch.log(torch.expm1(v)) if name.endswith(".dt") else v for name, v in values.items()}
    return meta["head"], meta["config"], values


def standardised(s):
    return (s - s.mean()) / (s.std(correction=0) + 1e-6)


def plan_of(head, s, config):
    if len(s) == 1:
        return torch.ones(1, 1, dtype=s.dtype)  # p_0 = 0, and its only column sums to 1
    return reference.plan(head, s[None], config)[0]


def orders_of(head, values, grid):
    """The fixed orders of all tokens, or none."""
    rows, cols = reference.GRIDS[grid]
    if head == "random-fixed":
        return [values["order"].long().tolist()]
    if head == "random-dynamic":
        return [reference.DYNAMIC[rows * cols][IMAGE]]
    return reference.scan_orders(head, rows, cols) if head in reference.SCANS else None


def behind_plan(head, values, config, routed):
    """Features of a routed sequence [n, d]."""
    if head == "sinkhorn-conv":
        conv = reference.loaded(nn.Conv1d(D, 192, 5, padding="same"), values, "conv.")
        return conv(routed.T[None])[0].mean(1)
    return routed.mean(0) if head == "sinkhorn-gap" else reference.s4(values, 0, routed[None], config)[0]


def sweeps(values, config, orders, tokens):
    reads = [reference.s4(values, g, tokens[order][None], config)[0] for g, order in enumerate(orders)]
    return torch.stack(reads).mean(0)


def pooled_weights(head, values, config, tokens):
    """[M, n]: the weight of every token in each of M pools, of heads without an order."""
    n = len(tokens)
    if head in ("gap", "linear-bn", "cls-mean"):
        return torch.full((1, n), 1 / n, dtype=tokens.dtype)
    if head == "attention":
        return torch.softmax(tokens @ values["query"] / math.sqrt(D), 0)[None]
    if head == "efficient":
        return torch.softmax(values["query"] @ tokens.T / math.sqrt(D), 1)
    if head == "abmilp":
        weight, attention, _ = reference.abmilp(values, config, tokens[None])
        return weight @ attention[0] if config.get("self_attention") == "both" else weight
    if head in ("simpool", "coca"):
        return normed_weights(head, values, config, tokens)
    s = standardised(tokens @ values["scorer.weight"][0])
    if head == "content":
        return torch.softmax(s, 0)[None]
    k = min(config["k"], n)
    return torch.zeros(1, n, dtype=s.dtype).scatter(1, s.topk(k).indices[None], 1 / k)


def normed_weights(head, values, config, tokens):
    """[M, n] of raw tokens, of heads that read them behind a LayerNorm: its deviation is part of the weight."""
    name, epsilon = ("norm_patches", 1e-6) if head == "simpool" else ("ln_k", 1e-5)
    spread = torch.sqrt(tokens.var(1, correction=0) + epsilon)
    x = (tokens - tokens.mean(1, keepdim=True)) / spread[:, None] * values[f"{name}.weight"] + values[f"{name}.bias"]
    if head == "simpool":
        logits = (x @ values["wk.weight"].T @ (values["wq.weight"] @ tokens.mean(0)))[None] / math.sqrt(D)
        return torch.softmax(logits, 1) / spread
    asked = F.layer_norm(values["query"][0], (D,), values["ln_q.weight"], values["ln_q.bias"])
    weight, bias = values["attn.in_proj_weight"], values["attn.in_proj_bias"]
    query = (weight[:D] @ asked + bias[:D]).unflatten(0, (config["heads"], -1))  # [H, e]
    key = (x @ weight[D : 2 * D].T + bias[D : 2 * D]).unflatten(1, (config["heads"], -1))  # [n, H, e]
    logits = torch.einsum("he,nhe->hn", query, key) / math.sqrt(D // config["heads"])
    return torch.softmax(logits, 1) / spread


def normed_pools(head, values, config, pools):
    """[1, d]: features of pools of raw tokens, whose weights hold the deviations."""
    name = "norm_patches" if head == "simpool" else "ln_k"
    x = (pools - pools.mean(1, keepdim=True)) * values[f"{name}.weight"] + values[f"{name}.bias"]
    if head == "simpool":
        return x
    value = values["attn.in_proj_weight"][2 * D :].unflatten(0, (config["heads"], -1))
    read = torch.einsum("hed,hd->he", value, x).flatten() + values["attn.in_proj_bias"][2 * D :]
    return F.linear(read, values["attn.out_proj.weight"], values["attn.out_proj.bias"])[None]


def behind_pools(head, values, config, pools):
    """Features of pools [M, d]."""
    read = pools[:1]
    if head == "cls-mean":
        read = torch.cat([values["cls"], pools[0, -(D // config.get("blocks", 1)) :]])[None]
    if config.get("self_attention") == "both":
        value = F.linear(read, values["self_attn.qkv.weight"][2 * D :])
        read = F.linear(value, values["self_attn.proj.weight"], values["self_attn.proj.bias"])
    if head in ("simpool", "coca"):
        read = normed_pools(head, values, config, pools)
    if head == "efficient":
        value = values["value.weight"].unflatten(0, (config["queries"], -1))
        read = torch.einsum("med,md->me", value, pools).reshape(1, -1)
    return (reference.batch_norm(values).eval()(read) if "norm.running_mean" in values else read)[0]


def network(head, values, config, tokens):
    if head in ("v-jepa", "simpool"):
        return reference.read(head, values, config, tokens[None], None, GRID)[0]
    if head == "transformer":
        layer = nn.TransformerEncoderLayer(D, config["heads"], 192, dropout=0.0, batch_first=True)
        sequence = torch.cat([values["cls"].reshape(1, 1, D), tokens[None]], 1)
        return reference.loaded(layer.train(), values, "encoder.")(sequence)[0, 0]
    if head == "deepsets":
        phi = reference.loaded(nn.Sequential(nn.Linear(D, 192), nn.ReLU(), nn.Linear(192, D)), values, "phi.")
        return reference.loaded(nn.LayerNorm(D), values, "norm.")(phi(tokens)).mean(0)
    gru = nn.GRU(D, 128, batch_first=True, bidirectional=True)
    _, last = reference.loaded(gru, values, "gru.")(tokens[None])
    return torch.cat([last[0, 0], last[1, 0]])


def is_network(head, config):
    """Whether the head is not linear in its tokens, even with fixed weights."""
    return head in ("transformer", "deepsets", "bi-gru", "v-jepa") or "gamma" in config


class Reading:
    """The weights of a head for the whole image, and its logits for the tokens that are left."""

    def __init__(self, head, config, values, tokens):
        self.head, self.config, self.values, self.tokens = head, config, values, tokens
        self.orders = orders_of(head, values, GRID)
        self.plan = None
        if head in reference.ROUTED:
            self.plan = plan_of(head, standardised(tokens @ values["scorer.weight"][0]), config)

    def logits(self, features):
        return F.linear(features, self.values["classifier.weight"], self.values["classifier.bias"])

    def frozen(self, tokens):
        """Features of other tokens [N, d] with the weights computed from these."""
        if self.plan is not None:
            return behind_plan(self.head, self.values, self.config, self.plan.T @ tokens)
        if self.orders is not None:
            return sweeps(self.values, self.config, self.orders, tokens)
        weights = pooled_weights(self.head, self.values, self.config, self.tokens)
        return behind_pools(self.head, self.values, self.config, weights @ tokens)

    def frozen_left(self, left):
        kept = torch.zeros_like(self.tokens)
        kept[left] = self.tokens[left]
        return self.logits(self.frozen(kept))

    def rerouted_left(self, left):
        left = sorted(left)
        tokens = self.tokens[left]
        if is_network(self.head, self.config):
            return self.logits(network(self.head, self.values, self.config, tokens))
        if self.orders is not None:
            orders = [[left.index(i) for i in order if i in left] for order in self.orders]
            return self.logits(sweeps(self.values, self.config, orders, tokens))
        return self.logits(self.alone(tokens))

    def alone(self, tokens):
        if self.plan is not None:
            s = standardised(tokens @ self.values["scorer.weight"][0])
            plan = plan_of(self.head, s, self.config)
            return behind_plan(self.head, self.values, self.config, plan.T @ tokens)
        weights = pooled_weights(self.head, self.values, self.config, tokens)
        return behind_pools(self.head, self.values, self.config, weights @ tokens)

    def gradient(self, tokens, class_):
        """The gradient of the logit of a class for every token, [N, d]; a hard choice has none."""
        with torch.enable_grad():
            tokens = tokens.clone().requires_grad_()
            reading = Reading(self.head, self.config, self.values, tokens)
            logit = reading.rerouted_left(list(range(len(tokens))))[class_]
            return torch.autograd.grad(logit, tokens)[0]

    def rankings(self, class_):
        """The importance of each token by each ranking; None if a ranking does not apply."""
        n = len(self.tokens)
        found = {"evidence": None, "weight": None, "late": None}
        if not is_network(self.head, self.config):
            empty = self.logits(self.frozen(torch.zeros_like(self.tokens)))[class_]
            found["evidence"] = torch.stack([self.frozen_left([i])[class_] - empty for i in range(n)])
            # A normalised token is centred over its channels, so its weight is not a single number.
            if self.head not in ("efficient", "sinkhorn-conv", "simpool", "coca") and "norm.running_mean" not in self.values:
                nothing = self.frozen(torch.zeros_like(self.tokens))
                ones = []
                for i in range(n):
                    unit = torch.zeros_like(self.tokens)
                    unit[i] = 1
                    ones.append(self.frozen(unit) - nothing)
                weight = torch.stack(ones)  # [N, d]
                if (weight - weight[:, :1]).abs().max() < 1e-12:
                    found["weight"] = weight[:, 0].abs()
        places = torch.arange(n, dtype=torch.float64)
        if self.plan is not None:
            found["late"] = (self.plan @ places) / self.plan.sum(1)
        elif self.orders is not None:
            found["late"] = torch.stack([places[torch.tensor(order).argsort()] for order in self.orders]).mean(0)
        way = self.tokens - self.tokens.mean(0)
        points = [(j - 0.5) / 64 for j in range(1, 65)]
        found["gradient"] = (self.tokens * self.gradient(self.tokens, class_)).sum(1)
        along = sum(self.gradient(self.tokens - (1 - share) * way, class_) for share in points) / 64
        found["integrated"] = (way * along).sum(1)
        constant = lambda v: v is not None and float(v.max() - v.min()) <= 1e-12 * float(v.abs().max())
        return {name: None if constant(v) else v for name, v in found.items()}


def half_up(x):
    return math.floor(x + Fraction(1, 2))


def curve(read, sets, class_, rival):
    logits = torch.stack([read(left) for left in sets])
    return {
        "logit": logits[:, class_],
        "margin": logits[:, class_] - logits[:, rival],
        "probability": torch.softmax(logits, 1)[:, class_],
    }


def sets_of(order):
    n = len(order)
    counts = [half_up(Fraction(i, STEPS) * n) for i in range(STEPS + 1)]
    deletion = [order[min(n - 1, count):] for count in counts]
    return {"deletion": deletion, "insertion": [order[: max(1, count)] for count in counts]}


def case(path, patches, rng):
    head, config, values = load(path)
    reading = Reading(head, config, values, patches)
    n = len(patches)
    whole = reading.rerouted_left(list(range(n)))
    class_ = len(path.stem) % 5
    rival = max((c for c in range(5) if c != class_), key=lambda c: float(whole[c]))
    rankings = reading.rankings(class_)
    modes = {"rerouted": reading.rerouted_left}
    if not is_network(head, config):
        modes["frozen"] = reading.frozen_left
        assert torch.allclose(reading.frozen_left(list(range(n))), whole, atol=1e-9)
    orders = {name: np.argsort(-v.numpy(), kind="stable").tolist() for name, v in rankings.items() if v is not None}
    draws = [rng.permutation(n).tolist() for _ in range(3)]
    curves = {}
    for mode, read in modes.items():
        for way in ("deletion", "insertion"):
            for name, order in orders.items():
                for what, values_ in curve(read, sets_of(order)[way], class_, rival).items():
                    curves[f"{mode}_{way}_{name}_{what}"] = values_.tolist()
            drawn = [curve(read, sets_of(order)[way], class_, rival) for order in draws]
            for what in drawn[0]:
                all_ = torch.stack([d[what] for d in drawn]).numpy()
                curves[f"{mode}_{way}_random_{what}"] = all_.mean(0).tolist()
                curves[f"{mode}_{way}_random_low_{what}"] = np.quantile(all_, 0.05, axis=0).tolist()
                curves[f"{mode}_{way}_random_high_{what}"] = np.quantile(all_, 0.95, axis=0).tolist()
    return {
        "probe": path.stem,
        "class": class_,
        "rival": rival,
        "values": {name: None if v is None else v.tolist() for name, v in rankings.items()},
        "orders": orders,
        "random": draws,
        "curves": curves,
    }


def rounded(value):
    """Twelve digits are enough, and half the file."""
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, dict):
        return {name: rounded(v) for name, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, list) else value


NEIGHBOURS = [(0, 1, 6), (0, -1, 6), (1, 0, 6), (-1, 0, 6), (1, 1, 12), (1, -1, 12), (-1, 1, 12), (-1, -1, 12)]


def painted(picture, known):
    """[3, H, W] with the pixels that are not known the weighted mean of their neighbours."""
    _, height, width = picture.shape
    gone = [(r, c) for r in range(height) for c in range(width) if not known[r, c]]
    index = {place: at for at, place in enumerate(gone)}
    matrix, right = lil_matrix((len(gone), len(gone))), np.zeros((len(gone), 3))
    for (r, c), at in index.items():
        for down, across, part in NEIGHBOURS:
            place = (r + down, c + across)
            if not (0 <= place[0] < height and 0 <= place[1] < width):
                continue
            matrix[at, at] += 1 / part
            if place in index:
                matrix[at, index[place]] -= 1 / part
            else:
                right[at] += picture[:, place[0], place[1]] / part
    out = picture.copy()
    for at, colour in enumerate(spsolve(matrix.tocsc(), right)):
        out[:, gone[at][0], gone[at][1]] = colour
    return out


def road(rng):
    for grid, patch, left in (((3, 4), (4, 6), [0, 5, 6, 11]), ((4, 4), (5, 5), [9]), ((2, 3), (4, 4), [0, 1, 2, 3, 5])):
        height, width = grid[0] * patch[0], grid[1] * patch[1]
        picture = rng.standard_normal((3, height, width)).astype(np.float32).astype(np.float64)
        keeps = np.isin(np.arange(grid[0] * grid[1]), left).reshape(grid)
        known = np.kron(keeps, np.ones(patch)) > 0
        yield {
            "grid": grid,
            "height": height,
            "width": width,
            "left": left,
            "pixels": picture.ravel().tolist(),
            "painted": rounded(painted(picture, known).ravel().tolist()),
        }


def main():
    HERE.mkdir(parents=True, exist_ok=True)
    with safe_open(FIXTURES / "heads" / "tokens.safetensors", "pt") as file:
        patches = file.get_tensor(f"{GRID}/patches")[IMAGE].double()
    rng = np.random.default_rng(10)
    files = sorted((FIXTURES / "heads").glob("*.safetensors"))
    files = [path for path in files if path.stem not in ("attribution", "expected", "tokens", "cls")]
    reference.TRAINING = False
    with torch.no_grad():
        cases = [case(path, patches, rng) for path in files]
    (HERE / "removal.json").write_text(json.dumps(rounded(cases)) + "\n")
    (HERE / "road.json").write_text(json.dumps(list(road(np.random.default_rng(11)))) + "\n")


if __name__ == "__main__":
    main()
