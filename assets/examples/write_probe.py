"""Write a Sinkhorn probe for ssmprobe with PyTorch alone, and read one back.

    python write_probe.py mine.safetensors

The values here are untrained; put your own in. Shapes: d is the backbone's hidden size, S the number
of states, C the number of classes. All values are effective ones: `s4.0.A` lower triangular with a
negative diagonal, `s4.0.dt` the step itself (0.001 to 0.1), not what a softplus makes of it.
"""

import json
import sys

import torch
from safetensors import safe_open
from safetensors.torch import save_file


def write(path, d=192, states=128, classes=("cat", "dog", "bird")):
    n = torch.arange(states, dtype=torch.float32)
    hippo = -torch.tril(torch.outer(2 * n + 1, 2 * n + 1).sqrt(), -1) - torch.diag(n + 1)
    linear = torch.nn.Linear(d, len(classes))
    tensors = {
        "scorer.weight": torch.nn.Linear(d, 1, bias=False).weight.data,  # [1, d]
        "s4.0.A": hippo,  # [S, S]
        "s4.0.B": (2 * n + 1).sqrt(),  # [S]
        "s4.0.C": torch.randn(states) / states**0.5,  # [S]
        "s4.0.D": torch.zeros(1),
        "s4.0.dt": torch.tensor([0.05]),
        "classifier.weight": linear.weight.data,  # [C, d]
        "classifier.bias": linear.bias.data,  # [C]
    }
    meta = {
        "format": 1,
        "head": "sinkhorn",
        "config": {"temperature": 0.1, "iterations": 20, "state_dim": states, "sharing": "shared"},
        "backbone": {"id": "vit-tiny-patch16-224", "model_type": "vit", "hidden_size": d},
        "classes": list(classes),
    }
    save_file(tensors, path, metadata={"ssmprobe": json.dumps(meta)})


def read(path):
    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["ssmprobe"]), {name: file.get_tensor(name) for name in file.keys()}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python write_probe.py FILE.safetensors")
    torch.manual_seed(0)
    write(sys.argv[1])
    meta, tensors = read(sys.argv[1])
    print(meta["head"], "for", len(meta["classes"]), "classes of", meta["backbone"]["id"])
    for name, tensor in tensors.items():
        print(f"  {name:20} {list(tensor.shape)}")
