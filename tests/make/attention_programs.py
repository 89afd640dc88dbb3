#!/usr/bin/env python3
"""Programs of attention in f16 and bf16, with results in float64 and what tensor cores can reach (needs PyTorch).

    attention_programs.py FOLDER  ->  FOLDER/NAME.pt2, FOLDER/NAME.safetensors: input_0.., exact (f64), rounded

`rounded` is the result in float64 of weights that are rounded to 16 bits before they are divided by their sum, as tensor
cores take them and as eager's flash attention on CUDA does, rounded once more at the end.
"""
import os
import sys
import zipfile

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch.export import Dim

attend = F.scaled_dot_product_attention


class Rounds(torch.overrides.TorchFunctionMode):
    """softmax and what it is multiplied with, with weights of 16 bits; in float64 otherwise"""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def weights(self, scores, values):
        most = scores.amax(-1, keepdim=True)
        exponentials = torch.exp(scores - torch.where(most == -torch.inf, 0.0, most))
        total = exponentials.sum(-1, keepdim=True)
        return exponentials.to(self.dtype).double() @ values / torch.where(total == 0, 1.0, total)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is not F.scaled_dot_product_attention:
            return function(*args, **kwargs)
        q, k, v = (t.double() for t in args)
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
        scores = q @ k.transpose(-2, -1) * (kwargs.get("scale") or q.shape[-1] ** -0.5)
        mask = kwargs.get("attn_mask")
        if kwargs.get("is_causal"):
            mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask.double()
        return self.weights(scores, v).to(self.dtype)


def rounded(function, inputs):
    dtype = next(t.dtype for t in inputs if t.is_floating_point())
    if function is capped:
        q, k, v = (t.double() for t in inputs)
        scores = 4.0 * torch.tanh(q @ k.transpose(-2, -1) / 4.0 / q.shape[-1] ** 0.5)
        return Rounds(dtype).weights(scores, v).to(dtype).contiguous()
    with Rounds(dtype):
        return function(*inputs).contiguous()


def full(q, k, v):
    return attend(q, k, v)


def causal(q, k, v):
    return attend(q, k, v, is_causal=True)


def cache(q, k, v, positions):
    """a cache of which what the positions have reached is seen; keys and values are shared by heads"""
    mask = torch.arange(k.shape[2])[None, :] <= positions[:, None]
    return attend(q, k, v, attn_mask=mask, enable_gqa=True)


def padded(q, k, v, lengths):
    """rows of padding see nothing at all: zeros"""
    seen = torch.arange(k.shape[2])[None, :] < lengths[:, None]
    return attend(q, k, v, attn_mask=seen[:, None, None, :])


def bias(q, k, v, slopes):
    distance = torch.arange(k.shape[2])[None, :] - torch.arange(q.shape[2])[:, None]
    return attend(q, k, v, attn_mask=(slopes[:, None, None] * distance).to(q.dtype))


def capped(q, k, v):
    scores = 4.0 * torch.tanh(q.float() @ k.float().transpose(-2, -1) / 4.0 / q.shape[-1] ** 0.5)
    return (torch.softmax(scores, -1) @ v.float()).to(q.dtype)


def window(q, k, v):
    i, j = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])[None, :]
    return attend(q, k, v, attn_mask=(j <= i) & (i - j < 20), scale=0.2)


def fused(x):
    """queries, keys and values side by side in one tensor"""
    q, k, v = (t.unflatten(-1, (2, 32)).transpose(1, 2) for t in x.chunk(3, -1))
    return attend(q, k, v).transpose(1, 2).flatten(2)


def draw(shape, dtype):
    return torch.randn(shape).to(dtype)


def programs():
    b, h = torch.bfloat16, torch.float16
    tensors = lambda q, k, v, dtype: [draw(q, dtype), draw(k, dtype), draw(v, dtype)]
    yield "full", full, tensors((2, 3, 70, 32), (2, 3, 90, 32), (2, 3, 90, 32), b), None
    yield "half", full, tensors((1, 2, 33, 64), (1, 2, 65, 64), (1, 2, 65, 64), h), None
    yield "widths", full, tensors((1, 2, 64, 48), (1, 2, 128, 48), (1, 2, 128, 128), b), None
    yield "causal", causal, tensors((1, 2, 130, 32), (1, 2, 130, 32), (1, 2, 130, 32), b), None
    n = Dim("n", min=1, max=200)
    yield "cache", cache, tensors((1, 4, 40, 32), (1, 2, 200, 32), (1, 2, 200, 32), b) + [torch.arange(100, 140)], \
        ({2: n}, None, None, {0: n})
    yield "padded", padded, tensors((3, 2, 20, 32), (3, 2, 70, 32), (3, 2, 70, 32), b) + [torch.tensor([70, 3, 0])], None
    yield "bias", bias, tensors((1, 3, 50, 32), (1, 3, 50, 32), (1, 3, 50, 32), b) + [torch.tensor([0.5, 0.25, 0.125])], None
    yield "capped", capped, tensors((1, 2, 40, 32), (1, 2, 72, 32), (1, 2, 72, 32), b), None
    yield "window", window, tensors((1, 1, 200, 32), (1, 1, 200, 32), (1, 1, 200, 32), b), None
    yield "fused", fused, [draw((2, 45, 192), b)], None


def paths_shorten(path):
    """Source lines name files without the folders of the machine that made them."""
    folders = [os.path.dirname(os.path.abspath(__file__)) + "/", os.path.dirname(os.path.dirname(torch.__file__)) + "/"]
    with zipfile.ZipFile(path) as archive:
        entries = [(entry.filename, archive.read(entry)) for entry in archive.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in entries:
            for folder in folders:
                data = data.replace(folder.encode(), b"")
            archive.writestr(name, data)


class Program(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def main():
    folder = sys.argv[1]
    torch.manual_seed(0)
    for name, function, inputs, dims in programs():
        module = Program(function)
        exported = torch.export.export(module, tuple(inputs), dynamic_shapes=(dims,) if dims else None)
        torch.export.save(exported, os.path.join(folder, name + ".pt2"))
        paths_shorten(os.path.join(folder, name + ".pt2"))
        exact = function(*[t.double() if t.is_floating_point() else t for t in inputs])
        tensors = {f"input_{i}": t.contiguous() for i, t in enumerate(inputs)}
        save_file({**tensors, "rounded": rounded(function, inputs), "exact": exact.double().contiguous()},
                  os.path.join(folder, name + ".safetensors"))


if __name__ == "__main__":
    main()
