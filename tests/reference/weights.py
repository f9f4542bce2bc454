"""Writes tests/fixtures/weights: tiny weights in every form that a backbone folder may have.

    python tests/reference/weights.py

needs torch and safetensors; every run writes the same bytes. `expected.json` holds what PyTorch
sees in each folder, as float64: {folder: {tensor: {"shape": [...], "values": [...]}}}.
"""

import argparse
import json
import os
import re
import struct
import zipfile
from collections import OrderedDict

import torch
from safetensors.torch import save_file

from place import FIXTURES

OUT = FIXTURES / "weights"
POOL = []


def storage(values, dtype):
    """A tensor whose storage lies above that of the one made before: the legacy form names
    storages by address and sorts by it, so the order of the file follows."""
    if not POOL:
        POOL.extend(sorted((torch.UntypedStorage(0) for _ in range(64)), key=lambda s: s._cdata, reverse=True))
    made = torch.tensor(values, dtype=dtype)
    raw = POOL.pop()
    raw.resize_(made.untyped_storage().nbytes())
    tensor = torch.empty(0, dtype=dtype).set_(raw, 0, made.shape)
    tensor.copy_(made)
    return tensor


def grid(rows, columns, start, dtype=torch.float32):
    return storage([[start + r * columns * 0.25 + c * 0.25 for c in range(columns)] for r in range(rows)], dtype)


def views():
    """A state dict with every kind of view; several tensors share a storage."""
    base = grid(4, 6, -2.0)
    state = OrderedDict()
    state["plain.weight"] = grid(2, 3, 1.0)
    state["base"] = base
    state["transposed"] = base.t()
    state["sliced"] = base[1:3, 2:5]
    state["stepped"] = base[::2, ::3]
    state["permuted"] = grid(2, 12, 10.0).reshape(2, 3, 4).permute(2, 0, 1)
    state["expanded"] = base[0, :1].expand(3, 2)
    state["scalar"] = base[3, 5]
    state["empty"] = torch.empty(0, 3)
    state["parameter"] = torch.nn.Parameter(base[2])
    state["half"] = grid(3, 2, -0.1, torch.float16).t()
    state["bfloat16"] = grid(3, 2, 0.3, torch.bfloat16)
    state["double"] = grid(2, 2, 1e-3, torch.float64)
    state["position_ids"] = storage([[0, 1, 2, -3]], torch.int64)
    state["mask"] = storage([True, False, True], torch.bool)
    state["bytes"] = storage([0, 255], torch.uint8)
    state._metadata = OrderedDict({"": {"version": 1}})
    return state


def save_zip(state, path):
    torch.save(state, path)


def save_legacy(state, path):
    """The form before PyTorch 1.6, with the addresses in it replaced by running numbers."""
    torch.save(state, path, _use_new_zipfile_serialization=False)
    names = {}

    def number(match):
        (length,) = struct.unpack("<I", match[1])
        if length != len(match[2]):
            return match[0]
        name = names.setdefault(match[2], str(1000 + len(names)).encode())
        return b"X" + struct.pack("<I", len(name)) + name

    content = re.sub(rb"X(..\x00\x00)(\d{9,})", number, path.read_bytes(), flags=re.DOTALL)
    path.write_bytes(content)
    torch.load(path)


class Command:
    """An object of a hostile file: unpickling it would run a command."""

    def __reduce__(self):
        return os.system, ("echo executed > executed",)


def tensors(state):
    return {
        name: {"shape": list(t.shape), "values": t.detach().double().flatten().tolist()} for name, t in state.items()
    }


def folder(name):
    path = OUT / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def index(path, parts):
    """The index over `parts` ({file: state dict}) at `path`."""
    where = {tensor: file for file, state in parts.items() for tensor in state}
    size = sum(t.numel() * t.element_size() for state in parts.values() for t in state.values())
    path.write_text(json.dumps({"metadata": {"total_size": size}, "weight_map": where}, indent=1) + "\n")


def main():
    expected = {}
    state = views()
    dense = {name: t.detach().clone(memory_format=torch.contiguous_format) for name, t in state.items()}

    save_file(dense, folder("safetensors") / "model.safetensors", metadata={"format": "pt"})
    expected["safetensors"] = tensors(dense)

    names = list(dense)
    parts = {
        f"model-0000{i + 1}-of-00002.safetensors": {n: dense[n] for n in names[i::2]} for i in range(2)
    }
    for file, part in parts.items():
        save_file(part, folder("safetensors-shards") / file, metadata={"format": "pt"})
    index(folder("safetensors-shards") / "model.safetensors.index.json", parts)
    expected["safetensors-shards"] = tensors(dense)

    save_zip(state, folder("zip") / "pytorch_model.bin")
    expected["zip"] = tensors(state)

    save_legacy(state, folder("legacy") / "pytorch_model.bin")
    expected["legacy"] = tensors(state)

    parts = {f"pytorch_model-0000{i + 1}-of-00002.bin": {n: state[n] for n in names[i::2]} for i in range(2)}
    for (file, part), save in zip(parts.items(), [save_zip, save_legacy]):
        save(part, folder("bin-shards") / file)
    index(folder("bin-shards") / "pytorch_model.bin.index.json", parts)
    expected["bin-shards"] = tensors(state)

    # A training checkpoint: the state dict under a key, beside numbers and lists.
    checkpoint = {"epoch": 3, "lr": 1e-3, "names": ["a", "b"], "state_dict": {"w": grid(2, 2, 0.5)}}
    save_zip(checkpoint, folder("checkpoint") / "pytorch_model.bin")
    expected["checkpoint"] = tensors(checkpoint["state_dict"])

    # Later pickle protocols: frames, memoised strings, globals from the stack.
    for protocol in [3, 4, 5]:
        torch.save(state, folder(f"protocol-{protocol}") / "pytorch_model.bin", pickle_protocol=protocol)
        expected[f"protocol-{protocol}"] = tensors(state)

    save_zip({"w": grid(1, 2, 0.0), "c": Command()}, folder("hostile-zip") / "pytorch_model.bin")
    torch.save(Command(), folder("hostile-legacy") / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    arguments = {"w": grid(1, 2, 0.0), "args": argparse.Namespace(epochs=3)}
    save_zip(arguments, folder("namespace") / "pytorch_model.bin")
    torch.jit.save(torch.jit.script(torch.nn.Identity()), folder("torchscript") / "pytorch_model.bin")
    with zipfile.ZipFile(folder("zip") / "pytorch_model.bin") as source:
        target = zipfile.ZipFile(folder("deflated") / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED)
        with target:
            for name in source.namelist():
                target.writestr(zipfile.ZipInfo(name), source.read(name), zipfile.ZIP_DEFLATED)

    (OUT / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
