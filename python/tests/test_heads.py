"""The reference forward pass: held to the program's `inspect`, and to fixtures of independent float64 PyTorch."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import ssmprobe
from numpy.typing import ArrayLike
from ssmprobe._files import read_safetensors
from ssmprobe._heads import ORDERED, SCANS, scan_orders

from .conftest import FIXTURES, ROOT

GIVEN = tuple(head for head in SCANS if scan_orders(head, 2, 2) is None and head not in ("random-fixed", "order"))
GRIDS = {"3x3": (3, 3), "2x6": (2, 6)}
EXPECTED, _ = read_safetensors(FIXTURES / "heads" / "expected.safetensors")
TOKENS, _ = read_safetensors(FIXTURES / "heads" / "tokens.safetensors")
CASES = sorted({name.rsplit("/", 1)[0] for name in EXPECTED if name.endswith("/logits") and not name.startswith(GIVEN)})


def close(found: ArrayLike | None, expected: ArrayLike | None, within: float, what: str) -> None:
    """Of the same shape, and as near as `within` times the largest number."""
    assert found is not None, what
    assert expected is not None, what
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, what
    assert np.abs(found - expected).max() <= within * np.abs(expected).max(), what


@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_independent_float64_code(case: str) -> None:
    stem, grid = case.split("/")
    probe = ssmprobe.load_probe(FIXTURES / "heads" / f"{stem}.safetensors")
    patches, cls, logits = TOKENS[f"{grid}/patches"], TOKENS[f"{grid}/cls"], EXPECTED[f"{case}/logits"]
    for image in range(3):
        output = probe(patches[image], cls[image], GRIDS[grid])
        close(output.logits, logits[image], 1e-12, f"{case} {image}")


def test_every_head_but_those_whose_orders_are_given_has_a_case() -> None:
    heads = {re.sub("(-channel)?(-zoh|-norm|-gamma|-blocks|-gate|-map|-both)?$", "", case.split("/")[0]) for case in CASES}
    assert heads == {*ssmprobe.HEADS} - {*GIVEN, "order"}


def agree(trace: ssmprobe.Trace, probe: ssmprobe.Probe) -> set[str]:
    """Holds what the reference makes of the tokens to what the program wrote; what was compared."""
    assert trace.tokens is not None
    orders = trace.orders if probe.head in GIVEN or trace.reading != "as trained" else None
    output = probe(trace.tokens, trace.cls, trace.grid, orders)
    compared = {"logits"}
    close(output.logits, trace.logits, 1e-6, f"{trace.probe}: logits")
    for name in ("scores", "plan", "orders", "kernels", "token_weight"):
        expected = getattr(trace, name)
        if expected is not None:
            close(getattr(output, name), expected, 1e-6, f"{trace.probe}: {name}")
            compared.add(name)
    if trace.evidence.token is not None:
        found = probe.evidence(output, trace.evidence.label)
        close(found, trace.evidence.token, 1e-6, f"{trace.probe}: evidence")
        total = found.sum() + trace.evidence.bias
        assert abs(total - output.logits[trace.evidence.label]) < 1e-5
        compared.add("evidence")
    return compared


def test_all_heads_of_the_demo_read_as_the_program_does(inspected: ssmprobe.Inspection) -> None:
    compared = {}
    for (_, name), trace in inspected.traces.items():
        compared[name] = agree(trace, ssmprobe.load_probe(ROOT / "assets" / "demo" / "probes" / "vit" / f"{name}.safetensors"))
    assert {*compared} == {*ssmprobe.HEADS} - {"order"}
    assert compared["sinkhorn"] == {"logits", "scores", "plan", "kernels", "token_weight", "evidence"}
    assert compared["vmamba"] == {"logits", "orders", "kernels", "token_weight", "evidence"}
    assert compared["sinkhorn-conv"] == {"logits", "scores", "plan", "evidence"}


def test_probes_with_an_s4_for_every_channel_read_as_the_program_does(small: ssmprobe.Inspection) -> None:
    folder = FIXTURES / "inspect" / "probes"
    probes = {file.stem: ssmprobe.load_probe(file) for file in folder.glob("*.safetensors")}
    assert sum(probe.config.get("sharing") == "channel" for probe in probes.values()) == 2
    assert len(small.traces) == 3 * len(probes)
    for (_, name), trace in small.traces.items():
        assert (trace.evidence.label, trace.file) == (1, None)
        agree(trace, probes[name])


def test_another_order_is_read_as_the_program_does(program: Path, tmp_path: Path) -> None:
    demo, order = ROOT / "assets" / "demo", np.random.default_rng(0).permutation(196)
    np.save(tmp_path / "mine.npy", order)
    flags: list[str | Path] = ["--image", demo / "scenes" / "val" / "cross-dots" / "00011.png", "--save-tokens"]
    flags += ["--reading", f"order={tmp_path / 'mine.npy'}", "--null-draws", "4", "--device", "cpu", "--out", tmp_path / "out"]
    for head in {*ORDERED} - {"order"}:
        flags += ["--probe", demo / "probes" / "vit" / f"{head}.safetensors"]
    ssmprobe.run("inspect", "--backbone", demo / "vit", *flags)
    traces = ssmprobe.read_inspect(tmp_path / "out").traces
    assert {trace.head for trace in traces.values()} == {*ORDERED} - {"order"}
    for trace in traces.values():
        assert {"logits", "orders"} <= agree(trace, ssmprobe.load_probe(trace.probe))


def test_scans_are_those_written_by_hand() -> None:
    by_hand = {
        "raster": "012345678",
        "vmamba": "012345678 876543210 036147258 852741630",
        "snake": "012543678 876345210 036741258 852147630",
        "diagonal": "013246578 875642310 215048376 673840512",
    }
    for head, words in by_hand.items():
        found = scan_orders(head, 3, 3)
        assert found is not None
        assert " ".join("".join(map(str, order)) for order in found) == words


def test_one_token_is_read_by_every_head() -> None:
    rng = np.random.default_rng(0)
    for file in (ROOT / "assets" / "demo" / "probes" / "vit").glob("*.safetensors"):
        if file.stem == "random-fixed":
            continue
        probe = ssmprobe.load_probe(file)
        orders = [[0]] * SCANS[probe.head] if probe.head in GIVEN else None
        assert np.isfinite(probe(rng.standard_normal((1, 96)), rng.standard_normal(96), orders=orders).logits).all()


def test_what_does_not_fit_the_probe_is_named() -> None:
    heads = FIXTURES / "heads"
    probe = ssmprobe.load_probe(heads / "vmamba.safetensors")
    with pytest.raises(ValueError, match=r"patches are \[4, 7\], expected \[N, 24\]"):
        probe(np.zeros((4, 7)))
    with pytest.raises(ValueError, match="6 patches are no square"):
        probe(np.zeros((6, 24)))
    with pytest.raises(ValueError, match="17 patches are no square, expected rows and columns, and no CLS"):
        ssmprobe.load_probe(heads / "gap.safetensors")(np.zeros((17, 24)))
    with pytest.raises(ValueError, match="grid is 2 x 2, expected 6 patches"):
        probe(np.zeros((6, 24)), grid=(2, 2))
    with pytest.raises(ValueError, match=r"orders of `vmamba` are \(1, 4\), expected 4 with each of 4 tokens once"):
        probe(np.zeros((4, 24)), orders=[[0, 1, 2, 3]])
    with pytest.raises(ValueError, match="the head `gap` reads in no order: orders are given, expected None"):
        ssmprobe.load_probe(heads / "gap.safetensors")(np.zeros((4, 24)), orders=[[0, 1, 2, 3]])
    with pytest.raises(ValueError, match="orders of `bi-gru` differ, expected the second to be the first from its end"):
        ssmprobe.load_probe(heads / "bi-gru.safetensors")(np.zeros((4, 24)), orders=[[0, 1, 2, 3]] * 2)
    with pytest.raises(ValueError, match=r"cls is \[3\], expected \[24\]"):
        probe(np.zeros((4, 24)), np.zeros(3))
    with pytest.raises(ValueError, match="cls is None, expected d numbers"):
        ssmprobe.load_probe(heads / "cls.safetensors")(np.zeros((4, 24)))
    with pytest.raises(ValueError, match="orders is None, expected what `inspect` wrote"):
        ssmprobe.load_probe(heads / "hilbert.safetensors")(np.zeros((4, 24)))
    opaque = ssmprobe.load_probe(heads / "bi-gru.safetensors")
    with pytest.raises(ValueError, match="`bi-gru` has no exact evidence"):
        opaque.evidence(opaque(np.ones((4, 24))), 0)
    cranes = replace(ssmprobe.load_probe(heads / "gap.safetensors"), classes=("crane", "finch", "crane"))
    with pytest.raises(ValueError, match="label is 'crane', the name of several classes; give the index"):
        cranes.evidence(cranes(np.ones((4, 24))), "crane")
