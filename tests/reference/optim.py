"""Steps of PyTorch's AdamW and cosine schedule in float64, for the tests in `src/model/train/optim/mod.rs`; of its SGD with
momentum, of LARS by its formula, and the rates of protocols, for those in `optim/momentum.rs` and `protocol.rs`.

    python tests/reference/optim.py

Needs torch. Writes tests/fixtures/optim/steps.json: the values after each of three steps on
f(x) = sum x^4 / 4. And tests/fixtures/optim/protocols.json: `sgd` and `lars`, the values of three parameters after each of six
steps on the same; `rates`, those of 36 steps in 12 epochs that begin at 0.4.
"""

import json
import math

import torch

from place import FIXTURES


STARTS = {
    "matrix": [[1.0, -2.0, 0.5], [0.25, -1.5, 3.0]],
    "vector": [1.0, -2.0, 0.5],
    "zeros": [[0.0, 0.0], [0.0, 0.0]],
}
RATES = [0.1, 0.05, 0.1, 0.2, 0.01, 0.1]


def started():
    return {name: torch.nn.Parameter(torch.tensor(start, dtype=torch.float64)) for name, start in STARTS.items()}


def values(parameters):
    return {name: parameter.detach().flatten().tolist() for name, parameter in parameters.items()}


def sgd():
    parameters = started()
    optimiser = torch.optim.SGD(parameters.values(), lr=0.1, momentum=0.9, weight_decay=0)
    steps = []
    for rate in RATES:
        optimiser.param_groups[0]["lr"] = rate
        optimiser.zero_grad()
        sum((p**4).sum() / 4 for p in parameters.values()).backward()
        optimiser.step()
        steps.append(values(parameters))
    return steps


def lars():
    """The gradient of f is x^3. Layer-wise rates for matrices alone, trust coefficient 0.001, momentum 0.9."""
    x = {name: parameter.detach() for name, parameter in started().items()}
    velocity = {name: torch.zeros_like(value) for name, value in x.items()}
    steps = []
    for rate in RATES:
        for name, value in x.items():
            gradient = value**3
            sizes = float((value**2).sum().sqrt()), float((gradient**2).sum().sqrt())
            if value.dim() >= 2 and min(sizes) > 0:
                gradient = gradient * (0.001 * sizes[0] / sizes[1])
            velocity[name] = 0.9 * velocity[name] + gradient
            x[name] = value - rate * velocity[name]
        steps.append(values(x))
    return steps


def warmed(rate, epoch, warm_up, epochs):
    """The rate at a fractional epoch: linear from 0, then half a cosine to 0."""
    if epoch < warm_up:
        return rate * epoch / warm_up
    return rate * 0.5 * (1 + math.cos(math.pi * (epoch - warm_up) / (epochs - warm_up)))


def protocols():
    epochs, steps = 12, 3
    rates = {"warm-up and cosine": 10, "cosine": 0}
    rates = {name: [warmed(0.4, t / steps, warm_up, epochs) for t in range(epochs * steps)] for name, warm_up in rates.items()}
    return {"sgd": sgd(), "lars": lars(), "rates": rates}


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
    (FIXTURES / "optim" / "protocols.json").write_text(json.dumps(protocols()) + "\n")


if __name__ == "__main__":
    main()
