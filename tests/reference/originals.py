"""Small checkpoints in the formats of their projects, and their tokens, stage by stage.

    python tests/reference/originals.py

needs torch and safetensors. It rewrites `tests/fixtures/originals/`: for each case a checkpoint wrapped as the project
does it, all parameters random, and `tokens.safetensors` with `{height}x{width}.{l}`, `[2, T, d]`, computed in float64:
the embeddings (l = 0), the tokens after layer l, and `last`, those after the last norm, where there is one, of the
images 0 and 1 of `backbones.py`. Of a head: `head.pth`, tokens, and the logits that it gives of them; of a head on the last
four layers also `checkpoint.pth`, the backbone whose tokens these are.

The encoders are written from the papers and from the names in the projects' state dicts: queries, keys and values
in one matrix; a table of positions that is resampled to the grid (`align_corners` false); in BEiT relative biases, a
table of `(2 R - 1)^2` offsets and three for CLS. `tokens` is all of it; EVA-02 stands in `eva02.py`.
"""

import argparse
import shutil

import eva02
import torch
from backbones import image
from place import FIXTURES
from random_weights import weights
from safetensors.torch import save_file
from torch.nn import functional as F

OUT = FIXTURES / "originals"
WIDTH, HEADS, LAYERS, PATCH, GRID, UNITS = 24, 3, 2, 4, 4, 48
SIZES = [(16, 16), (24, 12)]


def norm(name):
    return {f"{name}.weight": (WIDTH,), f"{name}.bias": (WIDTH,)}


def linear(name, rows, columns, bias=True):
    return {f"{name}.weight": (rows, columns)} | ({f"{name}.bias": (rows,)} if bias else {})


def block(name, *, split=False, gated=False, scales=(), relative=False):
    """Names and shapes of one block."""
    shapes = norm(f"{name}.norm1") | linear(f"{name}.attn.qkv", 3 * WIDTH, WIDTH, bias=not split)
    if split:
        shapes |= {f"{name}.attn.q_bias": (WIDTH,), f"{name}.attn.v_bias": (WIDTH,)}
    if relative:
        shapes[f"{name}.attn.relative_position_bias_table"] = ((2 * GRID - 1) ** 2 + 3, HEADS)
    shapes |= linear(f"{name}.attn.proj", WIDTH, WIDTH) | norm(f"{name}.norm2")
    if gated:
        shapes |= linear(f"{name}.mlp.w12", 2 * UNITS, WIDTH) | linear(f"{name}.mlp.w3", WIDTH, UNITS)
    else:
        shapes |= linear(f"{name}.mlp.fc1", UNITS, WIDTH) | linear(f"{name}.mlp.fc2", WIDTH, UNITS)
    return shapes | {f"{name}.{scale}": (WIDTH,) for scale in scales}


def encoder(seed, *, positions=1 + GRID * GRID, last=True, names=None, **choices):
    """A state dict of an encoder: `names` of its blocks where they are not `blocks.0`, `blocks.1`."""
    shapes = {"cls_token": (1, 1, WIDTH)}
    if positions:
        shapes["pos_embed"] = (1, positions, WIDTH)
    shapes |= {"patch_embed.proj.weight": (WIDTH, 3, PATCH, PATCH), "patch_embed.proj.bias": (WIDTH,)}
    for name in names or [f"blocks.{i}" for i in range(LAYERS)]:
        shapes |= block(name, **choices)
    return weights(seed, **shapes | (norm("norm") if last else {}))


def resampled(table, height, width, antialias):
    """A table of positions `[1, GRID^2, d]` for another grid."""
    square = table.reshape(1, GRID, GRID, -1).permute(0, 3, 1, 2)
    if (height, width) != (GRID, GRID):
        square = F.interpolate(square, size=(height, width), mode="bicubic", align_corners=False, antialias=antialias)
    return square.flatten(2).transpose(1, 2)


def relative(table, rows, cols):
    """The relative biases that BEiT adds to the attention logits of each pair of tokens, `[heads, T, T]`, CLS first."""
    side, heads = 2 * GRID - 1, table.shape[1]
    offsets = table[:-3].T.reshape(1, heads, side, side)
    offsets = F.interpolate(offsets, size=(2 * rows - 1, 2 * cols - 1), mode="bilinear", align_corners=False)[0]
    y = torch.arange(rows).repeat_interleave(cols)
    x = torch.arange(cols).repeat(rows)
    bias = torch.empty(heads, 1 + rows * cols, 1 + rows * cols, dtype=table.dtype)
    bias[:, 1:, 1:] = offsets[:, y[:, None] - y[None] + rows - 1, x[:, None] - x[None] + cols - 1]
    to_patch, from_patch, own = table[-3], table[-2], table[-1]
    bias[:, 0, 1:], bias[:, 1:, 0], bias[:, 0, 0] = to_patch[:, None], from_patch[:, None], own
    return bias


def tokens(state, pixels, extra=None, placed=1, antialias=False, names=None):
    """Every stage of an encoder, `[B, T, d]`. `extra`: tokens behind CLS; `placed`: tokens with a row of positions."""
    w = {name: value.double() for name, value in state.items()}
    batch, _, height, width = pixels.shape
    rows, cols = height // PATCH, width // PATCH
    projected = F.conv2d(pixels, w["patch_embed.proj.weight"], w["patch_embed.proj.bias"], stride=PATCH)
    patches = projected.flatten(2).transpose(1, 2)
    before = [w["cls_token"]] + ([w[extra]] if extra else [])
    before = torch.cat(before, 1)
    if "pos_embed" in w:
        of_prefix, of_patches = w["pos_embed"].split([placed, GRID * GRID], 1)
        patches = patches + resampled(of_patches, rows, cols, antialias)
        before = torch.cat([before[:, :placed] + of_prefix, before[:, placed:]], 1)
    x = torch.cat([before.expand(batch, -1, -1), patches], 1)
    shared = w.get("rel_pos_bias.relative_position_bias_table")

    def normed(x, name):
        return F.layer_norm(x, [WIDTH], w[f"{name}.weight"], w[f"{name}.bias"], 1e-6)

    def mapped(x, name):
        return F.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))

    stages = [x]
    for name in names or [f"blocks.{i}" for i in range(LAYERS)]:
        qkv = mapped(normed(x, f"{name}.norm1"), f"{name}.attn.qkv")
        if f"{name}.attn.q_bias" in w:
            q_bias, v_bias = w[f"{name}.attn.q_bias"], w[f"{name}.attn.v_bias"]
            qkv = qkv + torch.cat([q_bias, torch.zeros_like(q_bias), v_bias])
        q, k, v = qkv.reshape(batch, -1, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        logits = q @ k.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5
        own = w.get(f"{name}.attn.relative_position_bias_table")
        for table in (own, shared):
            logits = logits if table is None else logits + relative(table, rows, cols)
        mixed = (logits.softmax(-1) @ v).transpose(1, 2).reshape(batch, -1, WIDTH)
        scales = [w.get(f"{name}.{a}", w.get(f"{name}.{b}", 1.0)) for a, b in (("ls1.gamma", "gamma_1"), ("ls2.gamma", "gamma_2"))]
        x = x + scales[0] * mapped(mixed, f"{name}.attn.proj")
        inner = normed(x, f"{name}.norm2")
        if f"{name}.mlp.w12.weight" in w:
            gate, up = mapped(inner, f"{name}.mlp.w12").chunk(2, -1)
            inner = mapped(F.silu(gate) * up, f"{name}.mlp.w3")
        else:
            inner = mapped(F.gelu(mapped(inner, f"{name}.mlp.fc1")), f"{name}.mlp.fc2")
        x = x + scales[1] * inner
        stages.append(x)
    return [*stages, normed(x, "norm") if "norm.weight" in w else x]


def case(name, checkpoint, state, by=tokens, **how):
    """A checkpoint to be saved by torch, or the tensors of a safetensors file in a list."""
    folder = OUT / name
    folder.mkdir(parents=True)
    if isinstance(checkpoint, dict):
        torch.save(checkpoint, folder / "checkpoint.pth")
    else:
        save_file(checkpoint[0], folder / "checkpoint.safetensors")
    found = {}
    for height, width in SIZES:
        pixels = torch.stack([image(0, height, width), image(1, height, width)]).double()
        stages = by(state, pixels, **how)
        for stage, value in zip([*range(LAYERS + 1), "last"], stages, strict=True):
            found[f"{height}x{width}.{stage}"] = value.float().contiguous()
    save_file(found, folder / "tokens.safetensors")


def below(prefix, state):
    return {prefix + name: value for name, value in state.items()}


def flags():
    return argparse.Namespace(epochs=3, lr=1e-3, names=["a", "b"], output_dir="runs")


def vit():
    """MAE and timm."""
    state = encoder(1)
    beside = weights(2, mask_token=(1, 1, 8), decoder_pos_embed=(1, 17, 8), **linear("decoder_embed", 8, WIDTH))
    beside |= weights(3, **linear("decoder_blocks.0.attn.qkv", 24, 8), **linear("decoder_pred", 48, 8))
    optimizer = {"state": {0: {"step": 2, "exp_avg": torch.zeros(2)}}, "param_groups": [{"lr": 1e-3, "params": [0]}]}
    case("mae", {"model": state | beside, "optimizer": optimizer, "epoch": 2, "args": flags()}, state)
    state = encoder(4)
    case("timm", [state | weights(5, **linear("head", 5, WIDTH))], state)
    # Registers, layer scale, and positions of the patches alone.
    state = encoder(6, positions=GRID * GRID, scales=["ls1.gamma", "ls2.gamma"]) | weights(7, reg_token=(1, 4, WIDTH))
    bare = state | {"pos_embed": torch.cat([torch.zeros(1, 1, WIDTH), state["pos_embed"]], 1)}
    case("timm-registers", {"state_dict": below("module.", state)}, bare, extra="reg_token", antialias=True)
    state = encoder(8, positions=2 + GRID * GRID) | weights(9, dist_token=(1, 1, WIDTH))
    heads = weights(10, **linear("head", 5, WIDTH), **linear("head_dist", 5, WIDTH))
    case("timm-deit", {"model": state | heads}, state, extra="dist_token", placed=2)


def self_supervised():
    """DINO, DINOv2, MoCo v3."""
    state, student = encoder(11), encoder(12)
    head = weights(13, **linear("head.mlp.0", 8, WIDTH), **{"head.last_layer.weight_g": (5, 1)})
    trained = {"student": below("module.backbone.", student) | below("module.", head)}
    trained |= {"teacher": below("backbone.", state) | head, "epoch": 3, "args": flags()}
    case("dino", trained, state)
    state = encoder(14, scales=["ls1.gamma", "ls2.gamma"]) | weights(15, mask_token=(1, WIDTH))
    case("dinov2", state, state)
    names = ["blocks.0.0", "blocks.1.1"]
    state = encoder(16, scales=["ls1.gamma", "ls2.gamma"], gated=True, names=names)
    state |= weights(17, mask_token=(1, WIDTH), register_tokens=(1, 4, WIDTH))
    head = weights(18, **linear("dino_head.mlp.0", 8, WIDTH), **linear("ibot_head.mlp.0", 8, WIDTH))
    trained = {"teacher": below("backbone.", state) | head}
    case("dinov2-registers", trained, state, extra="register_tokens", antialias=True, names=names)
    state, momentum = encoder(19), encoder(20)
    head = weights(21, **linear("head.0", 8, WIDTH, bias=False), **{"head.1.weight": (8,), "head.1.running_mean": (8,)})
    head["head.1.num_batches_tracked"] = torch.tensor(7)
    trained = below("module.base_encoder.", state | head) | below("module.momentum_encoder.", momentum | head)
    trained |= below("module.predictor.", weights(22, **linear("0", 8, 8, bias=False)))
    case("mocov3", {"epoch": 3, "arch": "vit_small", "state_dict": trained}, state)


def beit():
    """BEiT, pre-trained with a table of relative biases for all layers, and fine-tuned with one for each."""
    table = ((2 * GRID - 1) ** 2 + 3, HEADS)
    index = torch.zeros(17, 17, dtype=torch.int64)
    state = encoder(23, positions=0, split=True, scales=["gamma_1", "gamma_2"])
    state |= weights(24, **{"rel_pos_bias.relative_position_bias_table": table})
    beside = weights(25, mask_token=(1, 1, WIDTH), **linear("lm_head", 8, WIDTH))
    beside["rel_pos_bias.relative_position_index"] = index
    case("beit", {"model": state | beside}, state)
    state = encoder(26, split=True, scales=["gamma_1", "gamma_2"], relative=True, last=False)
    beside = weights(27, **norm("fc_norm"), **linear("head", 5, WIDTH))
    beside |= {f"blocks.{i}.attn.relative_position_index": index for i in range(LAYERS)}
    case("beit-tuned", {"module": state | beside}, state)


def rotary():
    """EVA-02 as timm has it, small sizes and large ones; as its project does, and with the text encoder of its CLIP."""

    def stages(state, pixels, **how):
        return eva02.run(state, pixels, HEADS, **how)[0]

    def made(seed, **choices):
        return weights(seed, **eva02.shapes(WIDTH, int(WIDTH * 8 / 3), LAYERS, **choices))

    state = made(41, fused=True, last="fc_norm")
    case("timm-eva02", [state | weights(42, **linear("head", 5, WIDTH))], state, by=stages)
    state = made(43, inner=("attn", "mlp"))
    case("timm-eva02-norms", {"state_dict": below("module.", state)}, state, by=stages)
    state = made(44, fused=True)
    own = eva02.renamed(state, eva02.PUBLISHED) | eva02.buffers(HEADS, WIDTH, LAYERS)
    case("eva02", [own | weights(45, mask_token=(1, 1, WIDTH), **linear("lm_head", 8, WIDTH))], state, by=stages)
    state = made(46, inner=("attn", "mlp"))
    # Positions on its own grid, as of a model that was pre-trained at this size.
    own = eva02.renamed(state, eva02.PUBLISHED) | eva02.buffers(HEADS, WIDTH, LAYERS, reference=GRID)
    text = weights(47, **linear("text.transformer.resblocks.0.mlp.c_fc", 8, 8)) | {"logit_scale": torch.tensor(1.0)}
    own |= weights(48, **linear("head", 5, WIDTH))
    case("eva02-clip", {"module": below("visual.", own) | text}, state, by=stages, reference=GRID)


def head(name, checkpoint, patches, cls, logits):
    folder = OUT / name
    folder.mkdir(parents=True)
    torch.save(checkpoint, folder / "head.pth")
    found = {"patches": patches, "cls": cls, "logits": logits}
    save_file({key: value.float().contiguous() for key, value in found.items()}, folder / "expected.safetensors")


def heads():
    """Efficient Probing with its batch normalisation, values as wide as tokens or half so; DINOv2's linear heads on tokens
    of the last layer."""
    generator = torch.Generator().manual_seed(31)
    patches, cls = torch.randn(2, 16, WIDTH, generator=generator), torch.randn(2, WIDTH, generator=generator)
    x, c = patches.double(), cls.double()
    classes = 5
    for name, seed, queries, d_out in (("ep", 32, 4, 1), ("ep-narrow", 36, 3, 2)):
        features = WIDTH // d_out
        shapes = {"0.cls_token": (1, queries, WIDTH), "0.v.weight": (features, WIDTH), **linear("2", classes, features)}
        state = weights(seed, **shapes)
        state["1.running_mean"] = torch.randn(features, generator=generator)
        state["1.running_var"] = torch.rand(features, generator=generator) + 1e-5
        state["1.num_batches_tracked"] = torch.tensor(9)
        w = {key: value.double() for key, value in state.items()}
        attention = (w["0.cls_token"][0] @ x.transpose(1, 2) * WIDTH**-0.5).softmax(-1)  # [B, M, N]
        values = (x @ w["0.v.weight"].T).reshape(2, 16, queries, features // queries)
        pooled = torch.einsum("bmn,bnmc->bmc", attention, values).flatten(1)
        normed = (pooled - w["1.running_mean"]) / torch.sqrt(w["1.running_var"] + 1e-6)
        meta = {"method": "MAE", "ep_queries": queries, "d_out": d_out, "table_best_acc1": 75.0}
        logits = normed @ w["2.weight"].T + w["2.bias"]
        head(name, {"state_dict": below("head.", state), "meta": meta}, patches, cls, logits)
    for name, features in (("dinov2-linear", torch.cat([c, x.mean(1)], 1)), ("dinov2-linear-cls", c)):
        state = weights(33, weight=(classes, features.shape[1]), bias=(classes,))
        logits = features @ state["weight"].double().T + state["bias"].double()
        head(name, state, patches, cls, logits)
    joined(classes)


def joined(classes):
    """DINOv2's linear heads on the last four layers, each behind the last norm: every CLS, and the mean of the last patches."""
    names = [f"blocks.{i}" for i in range(5)]
    state = encoder(34, scales=["ls1.gamma", "ls2.gamma"], names=names) | weights(35, mask_token=(1, WIDTH))
    pixels = torch.stack([image(0, 16, 16), image(1, 16, 16)]).double()
    scale, shift = state["norm.weight"].double(), state["norm.bias"].double()
    stages = tokens(state, pixels, names=names)[2:6]
    last = [F.layer_norm(x, [WIDTH], scale, shift, 1e-6).float() for x in stages]
    cls, patches = [x[:, 0].double() for x in last], [x[:, 1:].double() for x in last]
    for name, features in (("dinov2-linear4", [*cls, patches[-1].mean(1)]), ("dinov2-linear4-cls", cls)):
        features = torch.cat(features, 1)
        own = weights(36, weight=(classes, features.shape[1]), bias=(classes,))
        logits = features @ own["weight"].double().T + own["bias"].double()
        head(name, own, torch.cat(patches, 2), torch.cat(cls, 1), logits)
    torch.save(state, OUT / "dinov2-linear4" / "checkpoint.pth")


def main():
    if OUT.exists():
        shutil.rmtree(OUT)
    vit()
    self_supervised()
    beit()
    rotary()
    heads()


if __name__ == "__main__":
    main()
