"""Probe files: written here and opened by the program, damaged ones refused with what is wrong."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ssmprobe
from ssmprobe._files import read_safetensors, write_safetensors

from .conftest import FIXTURES, FROZEN

D, CLASSES = 24, ["tench", "crane", "owl"]


def tensors(states: int = 8) -> dict[str, Any]:
    """A Sinkhorn probe as ten lines of PyTorch make it."""
    rng, n = np.random.default_rng(1), np.arange(states)
    hippo = -np.tril(np.sqrt(np.outer(2 * n + 1, 2 * n + 1)), -1) - np.diag(n + 1.0)
    found = {"scorer.weight": rng.standard_normal((1, D)), "s4.0.A": hippo, "s4.0.B": np.sqrt(2 * n + 1)}
    found |= {"s4.0.C": rng.standard_normal(states), "s4.0.D": np.zeros(1), "s4.0.dt": np.array([0.05])}
    return found | {"classifier.weight": rng.standard_normal((3, D)), "classifier.bias": rng.standard_normal(3)}


def save(path: Path, **changed: Any) -> None:
    config = {"state_dim": 8, "temperature": 0.2}
    ssmprobe.save_probe(path, **{"head": "sinkhorn", "tensors": tensors(), "classes": CLASSES, "config": config} | changed)


def test_what_is_saved_here_is_read_alike_here_and_by_the_program(tmp_path: Path, program: Path) -> None:
    file, at = tmp_path / "mine.safetensors", FIXTURES / "inspect"
    save(file, training={"by": "hand"}, backbone="tiny")
    flags: list[str | Path] = [
        "--image",
        at / "images" / "one.png",
        "--save-tokens",
        "--device",
        "cpu",
        "--out",
        tmp_path / "out",
    ]
    ssmprobe.run("inspect", "--backbone", at / "backbone", "--probe", file, *flags)
    trace = ssmprobe.read_inspect(tmp_path / "out").traces["one", "mine"]
    probe = ssmprobe.load_probe(file)
    assert (probe.classes, probe.training, probe.backbone) == (tuple(CLASSES), {"by": "hand"}, {"id": "tiny", "hidden_size": D})
    assert trace.tokens is not None
    np.testing.assert_allclose(probe(trace.tokens).logits, trace.logits, rtol=1e-6, atol=1e-6)
    assert trace.predictions[0].name == CLASSES[int(np.argmax(trace.logits))]
    output = probe(trace.tokens)
    np.testing.assert_array_equal(probe.evidence(output, "owl"), probe.evidence(output, 2))
    with pytest.raises(ValueError, match="label is 'owls', expected an index below 3, one of tench, crane, owl"):
        probe.evidence(output, "owls")
    named = replace(probe, classes=("tench (n01440764)", "crane (n02012849)", "crane (n03126707)"))
    for label in ["n03126707", "hoist (n03126707)"]:
        np.testing.assert_array_equal(named.evidence(output, label), probe.evidence(output, 2))
    with pytest.raises(ValueError, match="label is 'crane', expected an index"):
        named.evidence(output, "crane")


class Module:
    """As much of a `torch.nn.Module` as is needed: tensors that must be detached before they are arrays."""

    class Tensor:
        def __init__(self, values: Any, ready: bool = False) -> None:
            self.values, self.ready = values, ready

        def detach(self) -> "Module.Tensor":
            return Module.Tensor(self.values, True)

        def cpu(self) -> "Module.Tensor":
            assert self.ready
            return self

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
            assert self.ready
            return np.asarray(self.values, dtype=dtype)

    def state_dict(self) -> dict[str, Any]:
        return {name: Module.Tensor(values) for name, values in tensors().items()}


def test_a_backbone_is_named_by_its_id_or_its_folder(tmp_path: Path) -> None:
    for backbone, name in (("facebook/vit-mae-base", "facebook/vit-mae-base"), (tmp_path / "mae-base", "mae-base")):
        save(tmp_path / "mine.safetensors", backbone=backbone)
        assert ssmprobe.load_probe(tmp_path / "mine.safetensors").backbone == {"id": name, "hidden_size": D}


def test_a_module_is_saved_by_its_state(tmp_path: Path) -> None:
    save(tmp_path / "a.safetensors")
    save(tmp_path / "b.safetensors", tensors=Module())
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.safetensors", "b.safetensors"]
    probe, patches = ssmprobe.load_probe(tmp_path / "a.safetensors"), np.random.default_rng(0).standard_normal((16, D))
    np.testing.assert_array_equal(probe(Module.Tensor(patches)).logits, probe(patches).logits)
    order = np.arange(16)[None, ::-1]
    np.testing.assert_array_equal(probe(patches, orders=Module.Tensor(order)).logits, probe(patches, orders=order).logits)


def test_a_module_of_pytorch_is_saved(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Module()
    module.classifier = torch.nn.Linear(D, 3).to(torch.bfloat16)
    ssmprobe.save_probe(tmp_path / "gap.safetensors", "gap", module, classes=CLASSES)
    probe = ssmprobe.load_probe(tmp_path / "gap.safetensors")
    assert probe.backbone == {"hidden_size": D}
    np.testing.assert_array_equal(probe.tensors["classifier.weight"], module.classifier.weight.detach().double().numpy())
    patches = torch.ones(4, D, dtype=torch.bfloat16, requires_grad=True)
    np.testing.assert_array_equal(probe(patches).logits, probe(np.ones((4, D))).logits)


def test_the_counter_of_a_batch_normalisation_is_left_out(tmp_path: Path) -> None:
    state = {"norm.running_mean": np.zeros(D), "norm.running_var": np.ones(D), "norm.num_batches_tracked": np.array(7)}
    state |= {"classifier.weight": np.ones((3, D)), "classifier.bias": np.zeros(3)}
    ssmprobe.save_probe(tmp_path / "a.safetensors", "linear-bn", state)
    probe = ssmprobe.load_probe(tmp_path / "a.safetensors")
    assert sorted(probe.tensors) == ["classifier.bias", "classifier.weight", "norm.running_mean", "norm.running_var"]
    assert repr(probe) == f"Probe linear-bn of hidden size {D} for 3 classes"
    with pytest.raises(ssmprobe.FileError, match=r"`norm.running_var` holds negative variances"):
        ssmprobe.save_probe(tmp_path / "a.safetensors", "linear-bn", state | {"norm.running_var": -np.ones(D)})


def test_the_hidden_size_of_joined_layers_is_found(tmp_path: Path) -> None:
    state = {"classifier.weight": np.ones((3, D + D // 2)), "classifier.bias": np.zeros(3)}
    ssmprobe.save_probe(tmp_path / "a.safetensors", "cls-mean", state, config={"blocks": 2})
    assert ssmprobe.load_probe(tmp_path / "a.safetensors").backbone == {"hidden_size": D}


def test_numbers_of_numpy_are_numbers_and_none_is_the_default(tmp_path: Path, program: Path) -> None:
    file, at = tmp_path / "a.safetensors", FIXTURES / "inspect"
    config = {"state_dim": np.int64(8), "temperature": np.float32(0.25), "iterations": None}
    save(file, config=config, training={"loss": np.float32(0.5), "curve": np.arange(2)})
    probe = ssmprobe.load_probe(file)
    assert (probe.config, probe.training) == ({"state_dim": 8, "temperature": 0.25}, {"loss": 0.5, "curve": [0, 1]})
    found, metadata = read_safetensors(file)
    meta = json.loads(metadata["ssmprobe"])
    meta["config"]["iterations"] = None
    write_safetensors(file, found, {"ssmprobe": json.dumps(meta)})
    patches = np.random.default_rng(0).standard_normal((16, D))
    np.testing.assert_array_equal(ssmprobe.load_probe(file)(patches).logits, probe(patches).logits)
    flags: list[str | Path] = ["--image", at / "images" / "one.png", "--device", "cpu", "--out", tmp_path / "out"]
    # The program takes a setting that is null for its default, too.
    assert "one.png" in ssmprobe.run("inspect", "--backbone", at / "backbone", "--probe", file, *flags)


def test_an_order_that_misses_a_token_is_refused(tmp_path: Path) -> None:
    probe = ssmprobe.load_probe(FIXTURES / "heads" / "random-fixed.safetensors")
    probe = replace(probe, tensors={**probe.tensors, "order": np.zeros(9)})
    with pytest.raises(ssmprobe.FileError, match="`order` is not a permutation of 0 to 8"):
        probe.save(tmp_path / "a.safetensors")


def test_a_probe_of_no_sensible_size_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "a.safetensors")
    monkeypatch.setattr("ssmprobe._probe.MAX_PROBE_BYTES", 100)
    with pytest.raises(ssmprobe.FileError, match=r"its size is \d+ bytes, expected at most 100"):
        ssmprobe.load_probe(tmp_path / "a.safetensors")


def test_what_a_description_says_besides_is_kept(tmp_path: Path) -> None:
    save(tmp_path / "a.safetensors")
    found, metadata = read_safetensors(tmp_path / "a.safetensors")
    meta = json.loads(metadata["ssmprobe"])
    meta |= {"author": "me", "config": meta["config"] | {"later": 1}}
    write_safetensors(tmp_path / "b.safetensors", found, {"ssmprobe": json.dumps(meta)})
    ssmprobe.load_probe(tmp_path / "b.safetensors").save(tmp_path / "c.safetensors")
    assert json.loads(read_safetensors(tmp_path / "c.safetensors")[1]["ssmprobe"]) == meta


def test_every_frozen_probe_is_read_and_written_again_to_the_same_numbers(tmp_path: Path) -> None:
    files = sorted(FROZEN.glob("*/probes/*.safetensors"))
    assert len(files) > 50
    for file in files:
        probe, again = ssmprobe.load_probe(file), tmp_path / "again.safetensors"
        probe.save(again)
        back = ssmprobe.load_probe(again)
        assert (back.head, back.config, back.classes, back.backbone) == (
            probe.head,
            probe.config,
            probe.classes,
            probe.backbone,
        )
        for name, values in probe.tensors.items():
            np.testing.assert_array_equal(values, back.tensors[name])


def tensor(name: str, values: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda meta, tensors: tensors.__setitem__(name, values)


def describe(**changed: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda meta, tensors: meta.update(changed)


DAMAGE: list[tuple[str, Callable[[dict[str, Any], dict[str, Any]], None], str]] = [
    ("missing", lambda meta, tensors: tensors.pop("s4.0.C"), r"tensors is wrong \(`s4.0.C` \[8\] is missing\), expected"),
    ("unused", tensor("query", np.zeros(D)), "`query` is unused"),
    ("misshapen", tensor("s4.0.B", np.zeros(7)), r"`s4.0.B` is \[7\], expected \[8\]"),
    ("not finite", tensor("s4.0.D", np.array([np.nan])), "`s4.0.D` holds values that are not finite"),
    ("unstable", tensor("s4.0.A", np.eye(8)), "`s4.0.A` is not lower triangular with a negative diagonal"),
    ("step", tensor("s4.0.dt", np.array([0.5])), "`s4.0.dt` is 0.5, expected a step from 0.001 to 0.1"),
    ("format", describe(format=2), "`format` is 2, expected 1; open it with the version of ssmprobe that wrote it"),
    ("head", describe(head="sinkhron"), "`head` is 'sinkhron', expected one of gap, cls"),
    ("classes", describe(classes=["one"]), r"`classifier.bias` is \[3\], expected \[1\]"),
    ("states", describe(config={"state_dim": "8"}), "`state_dim` of `config` is a text, expected a whole number"),
    ("temperature", describe(config={"state_dim": 8, "temperature": 0}), "`temperature` of `config` is 0, expected a number"),
    ("iterations", describe(config={"iterations": 10_001}), "is 10001, expected a whole number from 1 to 10000"),
    ("power", describe(config={"state_dim": 8, "power": 3}), "`power` of `config` is 3, expected a whole number from 1 to 2"),
    ("flag", describe(config={"state_dim": 8, "temperature": True}), "`temperature` of `config` is true or false, expected"),
    ("gamma", describe(config={"state_dim": 8, "gamma": 0}), "`gamma` of `config` is 0, expected a number from 0.001 to 1000"),
    ("settings of the backbone", describe(backbone={"hidden_size": D, "config": {}}), "`config` of `backbone` is an object"),
    ("heads", describe(config={"state_dim": 8, "heads": 5}), "`hidden_size` of `backbone` is 24, expected a multiple of 5"),
    ("sharing", describe(config={"sharing": "some"}), "`sharing` of `config` is 'some', expected shared or channel"),
    ("width", describe(backbone={}), "`hidden_size` of `backbone` is absent, expected a whole number"),
]


@pytest.mark.parametrize(("what", "damage", "message"), DAMAGE, ids=[name for name, _, _ in DAMAGE])
def test_a_damaged_probe_is_refused_with_what_is_wrong(
    tmp_path: Path, what: str, damage: Callable[[dict[str, Any], dict[str, Any]], None], message: str
) -> None:
    good, bad = tmp_path / "good.safetensors", tmp_path / "bad.safetensors"
    save(good)
    found, metadata = read_safetensors(good)
    meta, changed = json.loads(metadata["ssmprobe"]), dict(found)
    damage(meta, changed)
    write_safetensors(bad, changed, {"ssmprobe": json.dumps(meta)})
    with pytest.raises(ssmprobe.FileError, match=message) as error:
        ssmprobe.load_probe(bad)
    assert str(error.value).startswith(str(bad))


def test_a_probe_that_does_not_fit_is_not_written(tmp_path: Path) -> None:
    wrong = tensors() | {"s4.0.B": np.zeros(3)}
    with pytest.raises(ssmprobe.FileError, match=r"`s4.0.B` is \[3\], expected \[8\]"):
        save(tmp_path / "a.safetensors", tensors=wrong)
    with pytest.raises(ssmprobe.FileError, match=r"`classifier.weight` is absent among bias, weight, expected"):
        ssmprobe.save_probe(tmp_path / "a.safetensors", "gap", {"weight": np.zeros((3, D)), "bias": np.zeros(3)})
    with pytest.raises(ssmprobe.FileError, match=r"type of `s4.0.C` is complex128, expected real numbers"):
        save(tmp_path / "a.safetensors", tensors=tensors() | {"s4.0.C": np.ones(8) * 1j})
    with pytest.raises(ssmprobe.FileError, match="setting in `config` is 'tau', expected one of temperature, gamma"):
        save(tmp_path / "a.safetensors", config={"state_dim": 8, "tau": 0.2})
    for training in ({"loss": float("nan")}, {"loss": np.float32("nan")}, {"from": Path("a")}, {"of": "\udcff"}):
        with pytest.raises(ssmprobe.FileError, match="the description is no JSON"):
            save(tmp_path / "a.safetensors", training=training)
    for classes in (range(3), np.arange(3), "abc", {"a", "b", "c"}):
        with pytest.raises(ssmprobe.FileError, match=r"`classes` of the description is .*, expected a list of texts"):
            save(tmp_path / "a.safetensors", classes=classes)
    with pytest.raises(ssmprobe.FileError, match="holds values that are not finite"), np.errstate(over="ignore"):
        save(tmp_path / "a.safetensors", tensors=tensors() | {"classifier.bias": np.full(3, 1e39)})
    assert not list(tmp_path.iterdir())
