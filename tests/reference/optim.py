"""Steps of PyTorch's AdamW and cosine schedule in float64, for the tests in `src/model/train/optim/mod.rs`.

    python tests/reference/optim.py

Needs torch. Writes tests/fixtures/optim/steps.json: the values after each of three steps on
f(x) = sum x^4 / 4.
"""

import json

import torch

from place import FIXTURES


def main():
    x = torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64))
    adam = torch.optim.AdamW([x], lr=0.1, weight_decay=0)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(adam, T_max=3)
    steps = []
    for _ in range(3):
        adam.zero_grad()
        (x**4 / 4).sum().backward()
        adam.step()
        cosine.step()
        steps.append(x.tolist())
    (FIXTURES / "optim").mkdir(parents=True, exist_ok=True)
    (FIXTURES / "optim" / "steps.json").write_text(json.dumps(steps) + "\n")


if __name__ == "__main__":
    main()
