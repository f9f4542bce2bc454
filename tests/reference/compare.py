"""Compares regenerated fixtures with those of the repository: `scripts/fixtures` calls it.

    python tests/reference/compare.py FOLDER

Numbers may differ by 2e-5 of the largest in their array (float32 products round otherwise on another
processor) and pixels by one grey level; everything else must be equal. Prints the largest deviation
of every folder; anything beyond, a file too few or too many, and another version of a library than
`requirements.txt` pins are errors.
"""

import importlib.metadata
import json
import platform
import sys
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors import safe_open

HERE = Path(__file__).resolve().parent
FIXTURES = HERE.parent / "fixtures"
NEAR = 2e-5
# Smallest scale of an array: values that are 0 except for rounding differ between machines.
FAINT = 1e-6
# Not made by the generators: written by the program, by hand, by damage, or by `scripts/fixtures --write`.
ELSEWHERE = ("frozen/", "lists/", "protocol/start.safetensors", "regressions/", "remote/", "versions.json")
# Needs weights that are not in the repository.
TRAINED = "backbones/vit-tiny.safetensors"


def versions():
    """The installed versions of the pinned packages."""
    pinned = dict(line.split("==") for line in (HERE / "requirements.txt").read_text().split() if "==" in line)
    return {"python": ".".join(platform.python_version_tuple()[:2])} | {
        # Some packages write post-releases in the form that predates the rule for them.
        name: importlib.metadata.version(name).replace("-", ".post")
        for name in pinned
    }


def leaves(value, place=""):
    """(place, value) of everything in a JSON document that holds nothing itself."""
    if isinstance(value, (dict, list)):
        yield place, sorted(value) if isinstance(value, dict) else len(value)
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, f"{place}/{key}")
    else:
        yield place, value


def contents(path):
    """What a file holds, by name: arrays, and what is no number as it is."""
    if path.suffix == ".npz":
        with np.load(path) as file:
            return {name: file[name] for name in file.files}
    if path.suffix == ".safetensors":
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}
            dtypes = {name: str(tensor.dtype) for name, tensor in tensors.items()}
            values = {name: (t.double() if t.is_floating_point() else t).numpy() for name, t in tensors.items()}
            return values | {"metadata": file.metadata(), "dtypes": dtypes}
    if path.suffix == ".json":
        numbers, rest = {}, {}
        for place, value in leaves(json.loads(path.read_text())):
            # A list of numbers is an array, whose largest entry is the scale of all.
            whole = not isinstance(value, float)
            (rest if whole else numbers.setdefault(place.rsplit("/", 1)[0], {}))[place] = value
        return {place: np.array(list(found.values())) for place, found in numbers.items()} | {"rest": rest}
    if path.suffix in (".bin", ".pth") and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as file:
            return {name: file.read(name) for name in file.namelist()}
    return {"bytes": path.read_bytes()}


def deviation(old, new):
    """By how much an array differs, as a share of the largest number in it; pixels whole levels."""
    if not isinstance(old, np.ndarray):
        return 0.0 if old == new else np.inf
    if old.shape != new.shape or old.dtype != new.dtype:
        return np.inf
    if old.size == 0 or np.array_equal(old, new, equal_nan=old.dtype.kind == "f"):
        return 0.0
    if old.dtype == np.uint8:
        return NEAR * float(np.abs(old.astype(int) - new.astype(int)).max())
    if old.dtype.kind != "f":
        return np.inf
    gap = np.abs(old.astype(float) - new.astype(float)).max() / max(np.abs(old.astype(float)).max(), FAINT)
    return np.inf if np.isnan(gap) else float(gap)


def main(made):
    files = lambda root: {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    kept = {name for name in files(FIXTURES) if not name.startswith(ELSEWHERE)}
    if TRAINED not in files(made):
        print(f"{TRAINED}: left out, there is no vit-tiny-patch16-224 in $SSMPROBE_DATA")
    wrong = [f"{name}: no generator makes it" for name in sorted(kept - files(made) - {TRAINED})]
    wrong += [f"{name}: not in the repository" for name in sorted(files(made) - kept)]
    worst = {}
    for name in sorted(kept & files(made)):
        old, new = contents(FIXTURES / name), contents(made / name)
        found = {key: deviation(old[key], new[key]) for key in old if key in new}
        wrong += [f"{name}: {key} is not in both" for key in sorted(old.keys() ^ new.keys())]
        wrong += [f"{name}: {key or 'it'} differs by {gap:.1e}" for key, gap in found.items() if not gap <= NEAR]
        folder = name.split("/")[0]
        worst[folder] = max([worst.get(folder, (0.0, ""))] + [(gap, f"{name}: {key}") for key, gap in found.items()])
    for folder, (gap, where) in worst.items():
        count = sum(name.startswith(folder + "/") for name in kept)
        print(f"{folder:10} {count:3} files, deviation at most {gap:.1e}{' in ' + where if gap else ''}")
    recorded = json.loads((FIXTURES / "versions.json").read_text())
    for name, version in versions().items():
        if recorded.get(name) != version:
            wrong.append(f"versions.json: {name} is {recorded.get(name)} there, and {version} here")
    raise SystemExit("\n".join(wrong) if wrong else 0)


if __name__ == "__main__":
    if sys.argv[1:] == ["--versions"]:
        print(json.dumps(versions(), indent=1))
    else:
        main(Path(sys.argv[1]))
