"""Operations of heads written with PyTorch's layers, counted by independent tools: `thop`, whose hooks see layers only,
and PyTorch's own counter of products (two operations a multiply-add). Writes tests/fixtures/costs/costs.json."""

import json
import warnings

import thop
import torch
from place import FIXTURES
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

warnings.filterwarnings("ignore")
OUT = FIXTURES / "costs" / "costs.json"
# d, rows, columns, classes, states; the first sizes are the paper's.
SIZES = [(768, 14, 14, 1000, 128), (24, 3, 4, 5, 7)]
HIDDEN, TAPS, GRU = 192, 5, 128
NORMED = ("linear-bn", "efficient", "abmilp", "abmilp-both")
CONFIGS = {"abmilp-both": {"gate": True, "self_attention": "both"}}  # settings that differ from the defaults
DIRECTIONS = {"raster": 1, "vmamba": 4, "random-fixed": 1, "random-dynamic": 1}


class Probe(nn.Module):
    def __init__(self, head, d, n, classes, states):
        super().__init__()
        self.head = head
        if head in ("content", "topk", "sinkhorn", "sinkhorn-conv", "sinkhorn-gap"):
            self.scorer = nn.Linear(d, 1, bias=False)
        if head == "transformer":
            self.cls = nn.Parameter(torch.zeros(1, 1, d))
            self.encoder = nn.TransformerEncoderLayer(d, 12, HIDDEN, batch_first=True)
        if head == "deepsets":
            self.phi = nn.Sequential(nn.Linear(d, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, d))
            self.norm = nn.LayerNorm(d)
        if head == "bi-gru":
            self.gru = nn.GRU(d, GRU, batch_first=True, bidirectional=True)
        if head == "sinkhorn-conv":
            self.conv = nn.Conv1d(d, HIDDEN, TAPS, padding="same")
        if head in NORMED:
            self.norm = nn.BatchNorm1d(d, affine=False)
        if head == "efficient":
            self.value = nn.Linear(d, d, bias=False)
            self.queries = next(m for m in range(32, 0, -1) if d % m == 0)
            self.query = nn.Parameter(torch.randn(self.queries, d))
        if head.startswith("abmilp"):
            self.attention_predictor = nn.Sequential(nn.Linear(d, d), nn.Tanh(), nn.Linear(d, 1))
        if head == "abmilp-both":
            self.gate, self.qkv, self.proj = nn.Linear(d, d), nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d)
        if head == "simpool":
            self.norm_patches, self.wq, self.wk = nn.LayerNorm(d), *(nn.Linear(d, d, bias=False) for _ in range(2))
        if head == "coca":
            self.query, self.attn = nn.Parameter(torch.randn(1, 1, d)), nn.MultiheadAttention(d, 8, batch_first=True)
            self.ln_q, self.ln_k = nn.LayerNorm(d), nn.LayerNorm(d)
        if head == "v-jepa":
            self.query, self.q, self.kv = nn.Parameter(torch.randn(1, 1, d)), nn.Linear(d, d), nn.Linear(d, 2 * d)
            self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.query_of_one = nn.Parameter(torch.randn(d))
        self.states = torch.randn(n, states, d)  # Abar^j Bbar, which all images share
        self.c = nn.Parameter(torch.randn(d, states))
        width = {"sinkhorn-conv": HIDDEN, "bi-gru": 2 * GRU, "cls-mean": 2 * d}.get(head, d)
        self.classifier = nn.Linear(width, classes)

    def s4(self, tokens):
        kernel = torch.einsum("ds,nsd->nd", self.c, self.states)
        return torch.einsum("nd,bnd->bd", kernel, tokens)

    def features(self, tokens):
        return self.norm(self.read(tokens)) if self.head in NORMED else self.read(tokens)

    def read(self, tokens):
        head = self.head
        pooled = lambda weight: (weight[:, None] @ tokens)[:, 0]
        if head in ("gap", "linear-bn"):
            return tokens.mean(1)
        if head == "cls":
            return tokens[:, 0]
        if head == "cls-mean":
            return torch.cat([tokens[:, 0], tokens.mean(1)], 1)
        if head == "abmilp":
            return pooled(self.attention_predictor(tokens)[..., 0].softmax(1))
        if head == "abmilp-both":
            query, key, value = self.qkv(tokens).chunk(3, 2)
            x = self.proj((query @ key.transpose(1, 2)).softmax(2) @ value)
            first, tanh, last = self.attention_predictor
            weight = last(tanh(first(x)) * self.gate(x).sigmoid())[..., 0].softmax(1)
            return (weight[:, None] @ x)[:, 0]
        if head == "simpool":
            x = self.norm_patches(tokens)
            return pooled((self.wk(x) @ self.wq(tokens.mean(1))[:, :, None])[..., 0].softmax(1))
        if head == "coca":
            x = self.ln_k(tokens)
            return self.attn(self.ln_q(self.query), x, x)[0][:, 0]
        if head == "v-jepa":
            apart = lambda x: x.unflatten(2, (12, -1)).transpose(1, 2)
            key, value = (apart(x) for x in self.kv(self.norm1(tokens)).chunk(2, 2))
            share = (apart(self.q(self.query)) @ key.transpose(2, 3)).softmax(3)
            read = self.query + (share @ value).transpose(1, 2).flatten(2)
            return (read + self.mlp(self.norm2(read)))[:, 0]
        if head == "attention":
            return pooled((tokens @ self.query_of_one[:, None])[..., 0].softmax(1))
        if head in DIRECTIONS:
            return sum(self.s4(tokens) for _ in range(DIRECTIONS[head])) / DIRECTIONS[head]
        if head == "transformer":
            return self.encoder(torch.cat([self.cls.expand(len(tokens), -1, -1), tokens], 1))[:, 0]
        if head == "deepsets":
            return self.norm(self.phi(tokens)).mean(1)
        if head == "bi-gru":
            return torch.cat([*self.gru(tokens)[1]], 1)
        if head == "efficient":
            share = torch.einsum("md,bnd->bmn", self.query, tokens).softmax(2)
            value = self.value(tokens).unflatten(2, (self.queries, -1))
            return torch.einsum("bmn,bnme->bme", share, value).flatten(1)
        scores = self.scorer(tokens)[..., 0]
        if head == "content":
            return pooled(scores.softmax(1))
        if head == "topk":
            best = scores.topk(2, 1).indices
            return torch.stack([t[i].mean(0) for t, i in zip(tokens, best)])
        routed = (scores[:, :, None] - scores[:, None]).softmax(2).transpose(1, 2) @ tokens
        if head == "sinkhorn-conv":
            return self.conv(routed.transpose(1, 2)).mean(2)
        return routed.mean(1) if head == "sinkhorn-gap" else self.s4(routed)

    def forward(self, tokens):
        return self.classifier(self.features(tokens))


def main():
    heads = ["gap", "cls", "attention", "content", "topk", *DIRECTIONS, "sinkhorn", "transformer", "deepsets"]
    heads += ["sinkhorn-conv", "sinkhorn-gap", "bi-gru", "linear-bn", "efficient"]
    heads += ["cls-mean", "abmilp", "simpool", "coca", "v-jepa", *CONFIGS]
    cases = []
    for d, rows, columns, classes, states in SIZES:
        for head in heads:
            # In `eval` mode the transformer is a fused kernel, which the counters do not see.
            probe = Probe(head, d, rows * columns, classes, states).train(head == "transformer")
            tokens = torch.randn(1, rows * columns, d)
            hooks, _ = thop.profile(probe, (tokens,), verbose=False)
            probe = Probe(head, d, rows * columns, classes, states).train(head == "transformer")
            with FlopCounterMode(display=False) as counter, torch.no_grad():
                probe(tokens)
            sizes = {"width": d, "rows": rows, "columns": columns, "classes": classes, "states": states}
            own = {"head": "abmilp", "config": CONFIGS[head]} if head in CONFIGS else {"head": head}
            cases.append({**own, **sizes, "hooks": int(hooks), "doubled": counter.get_total_flops()})
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
