"""Writes a probe that SSMProbe reads: `python write_probe.py OUT.safetensors` (needs torch, safetensors).

The head is `sinkhorn` with one S4 for all channels. Put your trained values in place of the starting ones;
tensors carry their PyTorch names and the values in effect: the step size itself, not what a softplus makes
it of. `hidden_size` must be the backbone's.
"""

import json
import sys

import torch
from safetensors.torch import save_file

hidden_size, states, classes = 192, 128, ["cat", "dog", "bird"]

# HiPPO-LegS, where every S4 starts: lower triangular with a negative diagonal.
n = torch.arange(states, dtype=torch.float64)
root = (2 * n + 1).sqrt()
A = -torch.tril(torch.outer(root, root), -1) - torch.diag(n + 1)

torch.manual_seed(0)
scorer = torch.nn.Linear(hidden_size, 1, bias=False)
classifier = torch.nn.Linear(hidden_size, len(classes))
tensors = {
    "scorer.weight": scorer.weight,
    "s4.0.A": A,
    "s4.0.B": root,
    "s4.0.C": torch.randn(states) / states**0.5,
    "s4.0.D": torch.zeros(1),
    "s4.0.dt": torch.tensor([0.05]),
    "classifier.weight": classifier.weight,
    "classifier.bias": classifier.bias,
}
meta = {
    "format": 1,
    "head": "sinkhorn",
    "config": {"temperature": 0.1, "iterations": 20, "state_dim": states, "sharing": "shared"},
    "backbone": {"id": "my-backbone", "model_type": "vit", "hidden_size": hidden_size},
    "classes": classes,
}
tensors = {name: value.detach().float().contiguous() for name, value in tensors.items()}
save_file(tensors, sys.argv[1], metadata={"ssmprobe": json.dumps(meta)})
