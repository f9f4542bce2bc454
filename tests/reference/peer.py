"""The paper's heads in plain PyTorch, in idiomatic form: the peer that
this program's accuracy and speed are compared with.

Written from the definitions: one `nn.Module` a head, parameters under their names in probe files, any
precision. Nothing is slow on purpose: an S4 is read as a weighted sum of tokens, its kernel comes
from log2(N) products, and a plan is multiplied with the kernel before any token. Sinkhorn is
`logsumexp` unrolled, as autograd needs it.

    python tests/reference/peer.py

compares every head with tests/fixtures/heads (which tests/reference/heads.py wrote by other formulas) and
prints the largest deviations; it fails where a float64 logit is off by 1e-9, or a gradient (stored in
float32) by 1e-5 of its length.
"""

import json
import math
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

STEP_BOUNDS = (1e-3, 1e-1)
STABLE_DIAGONAL = -1e-4

# ---- fixed orders: order[k] is the token read at step k ------------------------------------------


def both(order):
    return [order, order.flip(0)]


def scan_orders(head, rows, cols):
    """One permutation [N] for each direction."""
    index = torch.arange(rows * cols).reshape(rows, cols)
    if head == "raster":
        return [index.flatten()]
    if head == "vmamba":
        return both(index.flatten()) + both(index.T.flatten())
    if head == "snake":
        turn = lambda grid: torch.cat([row.flip(0) if r % 2 else row for r, row in enumerate(grid)])
        return both(turn(index)) + both(turn(index.T))
    if head == "diagonal":
        # torch's diagonals run along r - c; a mirrored grid turns them into r + c.
        def walk(grid):
            return torch.cat([grid.flip(1).diagonal(cols - 1 - total) for total in range(rows + cols - 1)])

        return both(walk(index)) + both(walk(index.flip(1)))
    raise ValueError(f"`{head}` is no fixed scan")


# ---- routers: plans P [B, N, N], rows tokens, columns positions ----------------------------------


def standardised(scores):
    return (scores - scores.mean(1, keepdim=True)) / (scores.std(1, correction=0, keepdim=True) + 1e-6)


def sinkhorn(s, tau=0.1, iterations=20):
    n = s.shape[1]
    positions = torch.arange(n, dtype=s.dtype, device=s.device) / (n - 1)
    log_kernel = -((s[:, :, None] - positions) ** 2) / tau
    g = s.new_zeros(s.shape)
    for _ in range(iterations):
        f = -torch.logsumexp(log_kernel + g[:, None, :], 2)
        g = -torch.logsumexp(log_kernel + f[:, :, None], 1)
    return torch.exp(log_kernel + f[:, :, None] + g[:, None, :])


def neuralsort(s, tau=1.0):
    n = s.shape[1]
    distance = (s[:, :, None] - s[:, None, :]).abs().sum(2)
    factor = 2 * torch.arange(n, dtype=s.dtype, device=s.device) + 1 - n  # N + 1 - 2r at r = N - k
    return torch.softmax((factor[:, None] * s[:, None, :] - distance[:, None, :]) / tau, 2).transpose(1, 2)


def softsort(s, tau=1.0, power=2):
    ranked = s.sort(1).values
    return torch.softmax(-((ranked[:, None, :] - s[:, :, None]).abs() ** power) / tau, 1)


PLANS = {"sinkhorn": sinkhorn, "neuralsort": neuralsort, "softsort": softsort}

# ---- state space models --------------------------------------------------------------------------


class S4(nn.Module):
    """One state space model for all channels. `gain(n)`: the weight of each of n positions, [N]."""

    def __init__(self, states):
        super().__init__()
        n = torch.arange(states, dtype=torch.float32)
        self.A = nn.Parameter(-torch.tril((2 * n[:, None] + 1).sqrt() * (2 * n + 1).sqrt(), -1) - torch.diag(n + 1))
        self.B = nn.Parameter((2 * n + 1).sqrt())
        self.C = nn.Parameter(torch.randn(states) / math.sqrt(states))
        self.D = nn.Parameter(torch.zeros(1))
        self.dt = nn.Parameter(torch.log(torch.expm1(torch.tensor([5e-2]))))  # through softplus

    def gain(self, n):
        step = F.softplus(self.dt)
        a = torch.tril(self.A)
        eye = torch.eye(len(a), dtype=a.dtype, device=a.device)
        right = torch.cat([eye + step / 2 * a, (step * self.B)[:, None]], 1)
        solved = torch.linalg.solve_triangular(eye - step / 2 * a, right, upper=False)
        power, columns = solved[:, :-1], solved[:, -1:]
        while columns.shape[1] < n:  # every product doubles the number of columns Abar^j Bbar
            columns = torch.cat([columns, power @ columns], 1)
            power = power @ power
        kernel = (self.C @ columns)[:n]  # K[j], j steps before the end
        gain = kernel.flip(0)
        return torch.cat([gain[:-1], gain[-1:] + self.D])

    @torch.no_grad()
    def restore(self):
        """Enforces after every step that the system is stable and the step size within its bounds."""
        self.A.diagonal().clamp_(max=STABLE_DIAGONAL)
        low, high = (math.log(math.expm1(bound)) for bound in STEP_BOUNDS)
        self.dt.clamp_(low, high)


def pooled(weights, tokens):
    return torch.bmm(weights[:, None, :], tokens)[:, 0]


# ---- heads: features [B, F] of tokens [B, N, d] and cls [B, d] -----------------------------------


class Gap(nn.Module):
    def forward(self, tokens, cls):
        return tokens.mean(1)


class Cls(nn.Module):
    def forward(self, tokens, cls):
        return cls


class LinearBn(nn.Module):
    """The mean through MAE's BatchNorm without weights."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width, affine=False, eps=1e-6)

    def forward(self, tokens, cls):
        return self.norm(tokens.mean(1))


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Parameter(torch.randn(width) * 0.02)

    def forward(self, tokens, cls):
        return pooled(torch.softmax(tokens @ self.query / math.sqrt(len(self.query)), 1), tokens)


class Scored(nn.Module):
    """A head with a scorer."""

    def __init__(self, width):
        super().__init__()
        self.scorer = nn.Linear(width, 1, bias=False)

    def scores(self, tokens):
        return standardised(self.scorer(tokens)[..., 0])


class Content(Scored):
    def forward(self, tokens, cls):
        return pooled(torch.softmax(self.scores(tokens), 1), tokens)


class TopK(Scored):
    def __init__(self, width, k=16):
        super().__init__(width)
        self.k = k

    def forward(self, tokens, cls):
        s = self.scores(tokens)
        k = min(self.k, s.shape[1])
        best = torch.zeros_like(s).scatter(1, s.topk(k, 1).indices, 1 / k)
        soft = torch.softmax(s, 1)  # straight through: the value of `best`, the gradient of `soft`
        return pooled(best + soft - soft.detach(), tokens)


class Scan(nn.Module):
    """S4 along fixed orders, their readouts averaged."""

    def __init__(self, orders, states=128):
        super().__init__()
        self.s4 = nn.ModuleList(S4(states) for _ in orders)
        # Where each token stands in each order: its weight is the gain there.
        self.register_buffer("places", torch.stack([o.argsort() for o in orders]), persistent=False)

    def forward(self, tokens, cls):
        n = tokens.shape[1]
        weights = torch.stack([s4.gain(n)[place] for s4, place in zip(self.s4, self.places)]).mean(0)
        return weights @ tokens


class RandomDynamic(nn.Module):
    def __init__(self, states=128):
        super().__init__()
        self.s4 = nn.ModuleList([S4(states)])

    def forward(self, tokens, cls):
        places = torch.rand(tokens.shape[:2], device=tokens.device).argsort(1)
        return pooled(self.s4[0].gain(tokens.shape[1])[places], tokens)


class Routed(Scored):
    """S4 behind a learned router: `z = sum_i (P gain)[i] t_i`."""

    def __init__(self, width, router, states=128, **settings):
        super().__init__(width)
        self.s4 = nn.ModuleList([S4(states)])
        self.plan = partial(PLANS[router], **settings)

    def forward(self, tokens, cls):
        return pooled(self.plan(self.scores(tokens)) @ self.s4[0].gain(tokens.shape[1]), tokens)


class SinkhornGap(Scored):
    def __init__(self, width, **settings):
        super().__init__(width)
        self.plan = partial(sinkhorn, **settings)

    def forward(self, tokens, cls):
        return pooled(self.plan(self.scores(tokens)).mean(2), tokens)


class SinkhornConv(Scored):
    def __init__(self, width, **settings):
        super().__init__(width)
        self.plan = partial(sinkhorn, **settings)
        self.conv = nn.Conv1d(width, 192, 5, padding="same")

    def forward(self, tokens, cls):
        routed = self.plan(self.scores(tokens)).transpose(1, 2) @ tokens  # [B, N, d]
        return self.conv(routed.transpose(1, 2)).mean(2)


class Transformer(nn.Module):
    def __init__(self, width, heads=12):
        super().__init__()
        self.cls = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.encoder = nn.TransformerEncoderLayer(width, heads, 192, dropout=0.0, batch_first=True)

    def forward(self, tokens, cls):
        sequence = torch.cat([self.cls.expand(len(tokens), -1, -1), tokens], 1)
        return self.encoder(sequence)[:, 0]


class DeepSets(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(width, 192), nn.ReLU(), nn.Linear(192, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens, cls):
        return self.norm(self.phi(tokens)).mean(1)


class BiGru(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gru = nn.GRU(width, 128, batch_first=True, bidirectional=True)

    def forward(self, tokens, cls):
        _, last = self.gru(tokens)
        return torch.cat([last[0], last[1]], 1)


def build(head, width, grid, order=None, states=128, **settings):
    """The head `head` for tokens of `width` channels over `grid` (rows, columns)."""
    simple = {"gap": Gap, "cls": Cls}
    plain = {"attention": Attention, "content": Content, "topk": TopK, "sinkhorn-gap": SinkhornGap}
    plain |= {"sinkhorn-conv": SinkhornConv, "transformer": Transformer, "deepsets": DeepSets, "bi-gru": BiGru}
    plain |= {"linear-bn": LinearBn}
    if head in simple:
        return simple[head]()
    if head in plain:
        return plain[head](width, **settings)
    if head in PLANS:
        return Routed(width, head, states, **settings)
    if head == "random-dynamic":
        return RandomDynamic(states)
    if head == "random-fixed":
        return Scan([torch.randperm(grid[0] * grid[1]) if order is None else order], states)
    return Scan(scan_orders(head, *grid), states)


PAPER = [
    "gap", "cls", "attention", "content", "topk", "raster", "vmamba", "snake", "diagonal", "random-fixed",
    "random-dynamic", "sinkhorn", "neuralsort", "softsort", "sinkhorn-conv", "sinkhorn-gap", "transformer",
    "deepsets", "bi-gru",
]  # fmt: skip


class Probe(nn.Module):
    """A head and its linear classifier, in the names of probe files."""

    def __init__(self, head, width, grid, classes, **settings):
        super().__init__()
        self.head = build(head, width, grid, **settings)
        features = {"sinkhorn-conv": 192, "bi-gru": 256}.get(head, width)
        self.classifier = nn.Linear(features, classes)

    def forward(self, tokens, cls):
        return self.classifier(self.head(tokens, cls))

    def restore(self):
        """Enforces the constraints of the parameters after every optimiser step."""
        for module in self.modules():
            if isinstance(module, S4):
                module.restore()


def step(probe, optimiser, tokens, cls, labels, forward=None):
    """One training step; the loss and the number of correct predictions."""
    optimiser.zero_grad()
    logits = (probe if forward is None else forward)(tokens, cls)
    loss = F.cross_entropy(logits, labels)
    loss.backward()
    optimiser.step()
    probe.restore()
    return loss.item(), (logits.argmax(1) == labels).sum().item()


# ---- the check against the other reference -------------------------------------------------------


def check():
    from safetensors import safe_open
    from safetensors.torch import load_file

    folder = Path(__file__).resolve().parent.parent / "fixtures" / "heads"
    expected, tokens = (load_file(folder / f"{name}.safetensors") for name in ("expected", "tokens"))
    labels, worst = torch.tensor([0, 3, 1]), 0.0
    for head in PAPER:
        if head == "random-dynamic":  # draws its own orders: otherwise the same as raster
            continue
        path = folder / f"{head}.safetensors"
        with safe_open(path, "pt") as file:
            config = json.loads(file.metadata()["ssmprobe"])["config"]
        values = {name: value.double() for name, value in load_file(path).items()}
        settings = {key: config[key] for key in ("k", "heads", "iterations", "power") if key in config}
        settings |= {"tau": config["temperature"]} if "temperature" in config else {}
        settings |= {"states": config["state_dim"]} if "state_dim" in config else {}
        order = values.pop("order", None)
        settings |= {"order": order.long()} if order is not None else {}
        for grid, sides in {"3x3": (3, 3), "2x6": (2, 6)}.items():
            if f"{head}/{grid}/logits" not in expected:
                continue
            patches, cls = (tokens[f"{grid}/{what}"].double() for what in ("patches", "cls"))
            probe = Probe(head, patches.shape[2], sides, 5, **settings).double()
            own = {(n if n.startswith("classifier") else "head." + n): v for n, v in values.items()}
            own = {n: torch.log(torch.expm1(v)) if n.endswith(".dt") else v for n, v in own.items()}
            probe.load_state_dict(own)
            logits = probe(patches, cls)
            F.cross_entropy(logits, labels).backward()
            deviation = (logits - expected[f"{head}/{grid}/logits"]).abs().max().item()
            slope = 0.0
            for name, value in probe.named_parameters():
                flat = value.grad.flatten()
                kept = flat[::7] if flat.numel() > 4096 else flat
                found = expected[f"{head}/{grid}/grad/{name.removeprefix('head.')}"].double().flatten()
                slope = max(slope, ((kept - found).norm() / (found.norm() + 1e-6)).item())
            print(f"{head:16} {grid}  logits {deviation:.1e}  gradients {slope:.1e}")
            worst = max(worst, deviation / 1e-9, slope / 1e-5)
    raise SystemExit(0 if worst < 1 else "a head deviates from tests/fixtures/heads")


if __name__ == "__main__":
    check()
