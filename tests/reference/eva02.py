"""EVA-02 (Fang et al., 2023), written from the paper in float64 under timm's names, for `backbones.py` and `originals.py`.

    python tests/reference/eva02.py

needs timm (1.0.31 was used), too, and compares every stage of the small models of this file with timm's module
in float64.

A layer is `x += proj(norm(attend(norm1(x))))`, `x += fc2(norm(silu(gate(y)) up(y)))` with `y = norm2(x)`: the norms within are
those of some sizes, keys have no bias. CLS stands first and has a row in the table of positions, which is resampled to other
grids (bicubic, antialiased). In every head of width p the channels 2 j and 2 j + 1 of the queries and keys of a patch are
turned as a pair, by the angle `base^(-4 j / p) r S / R` for j < p / 4 and `base^(-4 (j - p / 4) / p) c S / C` for
the rest: row r of R, column c of C, counted as on the grid of S x S (16) that a published model was pre-trained on.
"""

import torch
from torch.nn import functional as F

PATCH, GRID = 4, 4
BASE, REFERENCE = 10000.0, 16


def shapes(width, units, layers, *, fused=False, inner=(), last="norm"):
    """Names and shapes of a state dict of timm: query, key and value `fused` in one matrix, and so gate and value;
    `inner`: where norms stand within, `attn` or `mlp`; `last`: the last norm, or the one of pooling."""

    def linear(name, rows, columns, bias=True):
        return {f"{name}.weight": (rows, columns)} | ({f"{name}.bias": (rows,)} if bias else {})

    def norm(name, length=width):
        return {f"{name}.weight": (length,), f"{name}.bias": (length,)}

    found = {"cls_token": (1, 1, width), "pos_embed": (1, 1 + GRID * GRID, width)}
    found |= {"patch_embed.proj.weight": (width, 3, PATCH, PATCH), "patch_embed.proj.bias": (width,)}
    for at in range(layers):
        attn, mlp = f"blocks.{at}.attn", f"blocks.{at}.mlp"
        found |= norm(f"blocks.{at}.norm1") | norm(f"blocks.{at}.norm2")
        if fused:
            found |= {f"{attn}.qkv.weight": (3 * width, width), f"{attn}.q_bias": (width,), f"{attn}.v_bias": (width,)}
            found |= linear(f"{mlp}.fc1", 2 * units, width)
        else:
            for part in "qkv":
                found |= linear(f"{attn}.{part}_proj", width, width, bias=part != "k")
            found |= linear(f"{mlp}.fc1_g", units, width) | linear(f"{mlp}.fc1_x", units, width)
        found |= linear(f"{attn}.proj", width, width) | linear(f"{mlp}.fc2", width, units)
        found |= norm(f"{attn}.norm") if "attn" in inner else {}
        found |= norm(f"{mlp}.norm", units) if "mlp" in inner else {}
    return found | norm(last)


def apart(state):
    """The state dict with query, key and value, and gate and value, each for itself."""
    found = {}
    for name, value in state.items():
        before, _, last = name.rpartition(".")
        if name.endswith("attn.qkv.weight"):
            stem = name.removesuffix("qkv.weight")
            found |= {f"{stem}{part}_proj.weight": rows for part, rows in zip("qkv", value.chunk(3), strict=True)}
        elif last in ("q_bias", "v_bias"):
            found[f"{before}.{last[0]}_proj.bias"] = value
        elif before.endswith("mlp.fc1"):
            found |= {f"{before}_{part}.{last}": rows for part, rows in zip("gx", value.chunk(2), strict=True)}
        else:
            found[name] = value
    return {name: value.contiguous() for name, value in found.items()}


HUB = [  # the names in the backbone folder that the program reads
    ("cls_token", "embeddings.cls_token"),
    ("pos_embed", "embeddings.position_embeddings"),
    ("patch_embed.proj.", "embeddings.patch_embeddings."),
    ("blocks.", "layer."),
    ("attn.proj.", "attention.o_proj."),
    ("attn.", "attention."),
    ("mlp.fc1_g.", "mlp.gate_proj."),
    ("mlp.fc1_x.", "mlp.up_proj."),
    ("mlp.fc2.", "mlp.down_proj."),
]
PUBLISHED = [  # the names of the original project
    ("attn.norm.", "attn.inner_attn_ln."),
    ("mlp.fc1_g.", "mlp.w1."),
    ("mlp.fc1_x.", "mlp.w2."),
    ("mlp.fc1.", "mlp.w12."),
    ("mlp.fc2.", "mlp.w3."),
    ("mlp.norm.", "mlp.ffn_ln."),
    ("attn.q_proj.bias", "attn.q_bias"),
    ("attn.v_proj.bias", "attn.v_bias"),
]


def renamed(state, table):
    """The same tensors, names replaced one after the other by `table`."""
    found = {}
    for name, value in state.items():
        for old, new in table:
            name = name.replace(old, new)
        found[name] = value
    return found


def angles(rows, cols, part, base=BASE, reference=REFERENCE):
    """The angle of every pair of channels of every patch, `[rows cols, part / 2]`."""
    bands = base ** (-torch.arange(part // 4).double() / (part // 4))
    down = torch.arange(rows).double() * reference / rows
    right = torch.arange(cols).double() * reference / cols
    down = (down[:, None] * bands)[:, None].expand(rows, cols, -1)
    right = (right[:, None] * bands)[None].expand(rows, cols, -1)
    return torch.cat([down, right], -1).flatten(0, 1)


def buffers(heads, width, layers, reference=REFERENCE):
    """Cosine and sine of the own grid, as a state dict of the original project holds them: once, and in every block."""
    turned = angles(GRID, GRID, width // heads, reference=reference).repeat_interleave(2, -1)
    owners = ["rope", *(f"blocks.{at}.attn.rope" for at in range(layers))]
    both = [("cos", turned.cos()), ("sin", turned.sin())]
    return {f"{owner}.freqs_{name}": value.float() for owner in owners for name, value in both}


def turn(x, angle):
    """Queries or keys `[B, heads, T, part]`, CLS first, the patches turned by their angles."""
    cls, patches = x[:, :, :1], x[:, :, 1:]
    z = torch.view_as_complex(patches.unflatten(-1, (-1, 2)).contiguous())
    turned = torch.view_as_real(z * torch.polar(torch.ones_like(angle), angle)).flatten(-2)
    return torch.cat([cls, turned], 2)


def run(state, pixels, heads, gone=None, **rotary):
    """Tokens before the first layer, after each and after the last norm, where there is one, `[B, T, d]` each, and the
    attention of every layer, `[B, heads, T, T]`. `gone`: which tokens nothing attends to."""
    w = {name: value.double() for name, value in apart(state).items()}
    batch, _, height, width = pixels.shape
    rows, cols = height // PATCH, width // PATCH
    d = w["cls_token"].shape[-1]

    def normed(x, name):
        return F.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"], 1e-6) if f"{name}.weight" in w else x

    def mapped(x, name):
        return F.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))

    patches = F.conv2d(pixels.double(), w["patch_embed.proj.weight"], w["patch_embed.proj.bias"], stride=PATCH)
    table = w["pos_embed"][:, 1:].unflatten(1, (GRID, GRID)).permute(0, 3, 1, 2)
    if (rows, cols) != (GRID, GRID):
        table = F.interpolate(table, size=(rows, cols), mode="bicubic", align_corners=False, antialias=True)
    cls = (w["cls_token"] + w["pos_embed"][:, :1]).expand(batch, -1, -1)
    x = torch.cat([cls, (patches + table).flatten(2).transpose(1, 2)], 1)
    angle = angles(rows, cols, d // heads, **rotary)
    stages, attentions = [x], []
    for at in range(sum(name.endswith("norm1.weight") for name in w)):
        name = f"blocks.{at}"
        inner = normed(x, f"{name}.norm1")
        q, k, v = (mapped(inner, f"{name}.attn.{part}_proj").unflatten(-1, (heads, -1)).transpose(1, 2) for part in "qkv")
        logits = turn(q, angle) @ turn(k, angle).transpose(-1, -2) * (d // heads) ** -0.5
        attention = (logits if gone is None else logits.masked_fill(gone, -torch.inf)).softmax(-1)
        attentions.append(attention)
        mixed = (attention @ v).transpose(1, 2).flatten(2)
        x = x + mapped(normed(mixed, f"{name}.attn.norm"), f"{name}.attn.proj")
        inner = normed(x, f"{name}.norm2")
        hidden = F.silu(mapped(inner, f"{name}.mlp.fc1_g")) * mapped(inner, f"{name}.mlp.fc1_x")
        x = x + mapped(normed(hidden, f"{name}.mlp.norm"), f"{name}.mlp.fc2")
        stages.append(x)
    return [*stages, normed(x, "norm")], attentions


def against_timm():
    """Largest difference to timm's module over all stages, a line a model and size."""
    from unittest.mock import patch

    from originals import HEADS, LAYERS, WIDTH, image
    from random_weights import weights
    from timm.models.eva import Eva

    units = int(WIDTH * 8 / 3)
    for seed, choices in enumerate((dict(fused=True, last="fc_norm"), dict(inner=("mlp",)), dict(inner=("attn", "mlp")))):
        state = weights(seed, **shapes(WIDTH, units, LAYERS, **choices))
        inner, fused = choices.get("inner", ()), choices.get("fused", False)
        kinds = dict(qkv_fused=fused, scale_mlp="mlp" in inner, scale_attn_inner="attn" in inner)
        kinds |= dict(global_pool="avg" if choices.get("last") == "fc_norm" else "token", dynamic_img_size=True)
        peer = Eva(
            img_size=GRID * PATCH, patch_size=PATCH, embed_dim=WIDTH, depth=LAYERS, num_heads=HEADS, mlp_ratio=8 / 3,
            swiglu_mlp=True, use_rot_pos_emb=True, ref_feat_shape=(REFERENCE, REFERENCE), num_classes=0, **kinds,
        )  # fmt: skip
        peer.load_state_dict(state, strict=True)
        peer = peer.double().eval()
        rope = peer.rope
        bands = BASE ** (-torch.arange(len(rope.bands)).double() / len(rope.bands))  # timm computes them in float32
        assert (rope.bands - bands).abs().max() < 1e-6
        rope.get_embed = lambda shape, rope=rope, bands=bands: rope._build_embed_cat(shape, bands, dtype=torch.float64)
        for height, width in ((16, 16), (32, 8), (8, 16), (24, 12)):
            pixels = torch.stack([image(0, height, width), image(1, height, width)]).double()
            seen = []
            hooks = [peer.blocks[0].register_forward_pre_hook(lambda _, args, seen=seen: seen.append(args[0]))]
            hooks += [block.register_forward_hook(lambda _, __, out, seen=seen: seen.append(out)) for block in peer.blocks]
            # timm resamples positions in float32, unless `float` is a no-op.
            with torch.no_grad(), patch.object(torch.Tensor, "float", lambda x: x):
                seen.append(peer.forward_features(pixels))
            for hook in hooks:
                hook.remove()
            own, _ = run(state, pixels, HEADS)
            apart = [float((a - b).abs().max()) for a, b in zip(own, seen, strict=True)]
            print(f"{choices}, {height} x {width}: {max(apart):.1e} apart at most in {len(apart)} stages")
            # timm computes coordinates in float32: exactly, if the ratio to the reference grid is a whole number.
            assert max(apart) < (1e-5 if (height, width) == (24, 12) else 1e-12)


if __name__ == "__main__":
    against_timm()
