"""One image explained by a probe in PyTorch, for compare.py: a straightforward implementation of the numbers that
`ssmprobe inspect` gives. Everything that depends on no image is precomputed.

Logits, the plan, token weights, exact evidence of the predicted class by token and by position, the paper's
proxy, the diagnostics of the plan, and beside them the diagnostics of an untrained scorer's plan (the null bands
depend on the router alone, so they are precomputed).
"""

import math

import torch
from scipy.stats import kendalltau
from torch.nn import functional as F

from peer import PLANS, Probe, Routed, Scan, Scored, sinkhorn, standardised

PROBES = [
    "gap", "attention", "content", "raster", "vmamba", "snake", "diagonal", "random-dynamic", "sinkhorn",
    "neuralsort", "softsort", "sinkhorn-conv", "sinkhorn-gap", "transformer", "deepsets", "bi-gru",
]  # fmt: skip


class Explained:
    """A probe with its precomputed kernels."""

    def __init__(self, head, width, grid, classes):
        torch.manual_seed(0)
        self.name = head
        self.probe = Probe(head, width, grid, classes).double().eval()
        self.head = self.probe.head
        self.untrained = torch.randn(width, dtype=torch.float64) / math.sqrt(width)
        with torch.no_grad():
            n = grid[0] * grid[1]
            self.gains = [s4.gain(n) for s4 in getattr(self.head, "s4", [])]
        # The forward pass reads the precomputed kernels instead of computing them again.
        for s4, gain in zip(getattr(self.head, "s4", []), self.gains):
            s4.gain = lambda _, gain=gain: gain
        self.plan = {"sinkhorn-conv": sinkhorn, "sinkhorn-gap": sinkhorn, **PLANS}.get(head)


def probes_of(width, grid, classes):
    return [Explained(head, width, grid, classes) for head in PROBES]


def entropy(best, n):
    share = torch.bincount(best, minlength=n).double() / n
    return -(share[share > 0] * share[share > 0].log()).sum() / math.log(n)


def diagnostics(plan, grid):
    """The twelve diagnostics of a plan [N, N]."""
    n = len(plan)
    positions = torch.arange(n, dtype=plan.dtype)
    best, leading = plan.argmax(1), plan.argmax(0)
    peak, rows = plan.max(1).values, plan.sum(1)
    share = plan / rows[:, None]
    expected = share @ positions
    spread = (share @ positions**2 - expected**2).clamp(min=0).sqrt()
    edge = max(1, n // 10)
    order = expected.argsort()
    places = torch.stack([order // grid[1], order % grid[1]], 1).double()
    return [
        best.unique().numel() / n,
        entropy(best, n).item(),
        ((best < edge) | (best >= n - edge)).double().mean().item(),
        peak.mean().item(),
        peak.quantile(0.95).item(),
        (rows - 1).abs().max().item(),
        (plan.sum(0) - 1).abs().max().item(),
        leading.unique().numel() / n,
        entropy(leading, n).item(),
        spread.mean().item(),
        kendalltau(expected.numpy(), range(n)).statistic,
        places.diff(dim=0).norm(dim=1).mean().item(),
    ]


def look(explained, tokens, cls, grid):
    """Every number of one image through one probe."""
    head, n = explained.head, tokens.shape[1]
    logits = explained.probe(tokens, cls)[0]
    probabilities = torch.softmax(logits, 0)
    best = probabilities.topk(min(5, len(logits)))
    row = explained.probe.classifier.weight[best.indices[0]]
    found = {"logits": logits, "top": best}
    worth = tokens[0] @ row if len(row) == tokens.shape[2] else None  # W_c . t_i
    if explained.plan:
        scores = head.scores(tokens)
        plan = explained.plan(scores)[0]
        found |= {"scores": scores[0], "plan": plan, "diagnostics": diagnostics(plan, grid)}
        other = standardised(tokens @ explained.untrained)
        found["untrained"] = diagnostics(explained.plan(other)[0], grid)
    if isinstance(head, Routed):
        gain = explained.gains[0]
        weighted = plan * worth[:, None] * gain
        decay = 0.95 ** torch.arange(n - 1, -1, -1, dtype=plan.dtype)
        found |= {"token_weight": plan @ gain, "by token": weighted.sum(1), "by position": weighted.sum(0)}
        found["proxy"] = (plan.T @ worth) * decay
    elif isinstance(head, Scan):
        weights = torch.stack([gain[place] for gain, place in zip(explained.gains, head.places)])
        found |= {"token_weight": weights.mean(0), "by token": weights.mean(0) * worth}
        found["by position"] = torch.stack([g * worth[p.argsort()] for g, p in zip(explained.gains, head.places)]).mean(0)
    elif explained.name == "sinkhorn-gap":
        found["by token"] = plan.mean(1) * worth
    elif explained.name == "sinkhorn-conv":
        # Position k meets tap j unless it is beyond the end: kernels [192, d, 5] times the class's row, mean over N.
        seen = torch.einsum("f,fdj->dj", row, head.conv.weight) / n
        taps = tokens[0] @ seen  # [N, 5]
        reach = F.conv1d(torch.ones(1, 1, n, dtype=plan.dtype), torch.eye(5, dtype=plan.dtype)[:, None], padding=2)[0]
        each = plan * (taps @ reach.flip(0))
        found |= {"by token": each.sum(1), "by position": each.sum(0)}
    elif isinstance(head, Scored):
        found["by token"] = torch.softmax(head.scores(tokens)[0], 0) * worth
    elif explained.name in ("gap", "attention"):
        share = torch.softmax(tokens[0] @ head.query / math.sqrt(len(row)), 0) if explained.name == "attention" else 1 / n
        found["by token"] = share * worth
    return found
