"""Random parameters of given names and shapes, for models that are made small for a test."""

import torch


def weights(seed, **shapes):
    """Random parameters of these shapes; norms around one, layer scales around a half."""
    generator = torch.Generator().manual_seed(seed)
    made = {}
    for name, shape in shapes.items():
        noise = torch.randn(shape, generator=generator)
        if "norm" in name and name.endswith("weight"):
            made[name] = 1 + 0.2 * noise
        elif "gamma" in name:
            made[name] = 0.5 + 0.3 * noise
        elif len(shape) >= 2 and "token" not in name and "pos" not in name:
            made[name] = noise * (1.5 / made_of(shape) ** 0.5)
        else:
            made[name] = 0.5 * noise
    return made


def made_of(shape):
    """The fan-in of a linear map of this shape."""
    count = 1
    for n in shape[1:]:
        count *= n
    return count
