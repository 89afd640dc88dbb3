"""operator_programs.py - programs drawn at random over what operators take at their edges: attention with masks that leave rows
empty, tensors without dims, counts of 0, axes from either end.

    python3 operator_programs.py build/dev/phasor /tmp/out 200 1    ->  200 programs of seed 1, exported in both forms, run with
                                                                       --expect on the CPU device (and on cuda, where
                                                                       PHASOR_DRIVER and PHASOR_NVRTC name a stand-in)

Prints each program that differs or is refused, and the counts; exits with 1 when one differs or a file is called damaged.
"""
import os
import random
import shutil
import subprocess
import sys

import torch
import torch.nn.functional as F

from case_files import case_write

aten = torch.ops.aten
NEVER = float("-inf")


# -- attention ---------------------------------------------------------------------------------------------------------


def mask_of(draw, lead, rows, columns):
    """Of bools or numbers, whole or broadcast, some rows without a column."""
    shape = draw.choice([(rows, columns), (1, columns), (rows, 1), lead + (rows, columns), (1,) * len(lead) + (rows, columns)])
    keep = torch.rand(shape) > 0.4
    if draw.random() < 0.7:
        keep[..., draw.randrange(shape[-2]), :] = False
    if draw.random() < 0.5:
        return keep
    return torch.randn(shape).masked_fill(~keep, NEVER)


def attention(draw):
    lead = draw.choice([(), (2,), (2, 4), (1, 4)])
    grouped = len(lead) == 2 and draw.random() < 0.4
    heads = (lead[0], draw.choice([1, 2, 4])) if grouped else lead
    rows, columns, width = draw.choice([1, 3, 5]), draw.choice([1, 2, 5]), draw.choice([2, 4, 8])
    dtype = draw.choice([torch.float32, torch.float64])  # eager's CPU kernel rounds weights of bf16, Phasor the result alone
    inputs = [torch.randn(lead + (rows, width)), torch.randn(heads + (columns, width)), torch.randn(heads + (columns, draw.choice([3, width])))]
    inputs = [x.to(dtype) for x in inputs]
    options = {"scale": draw.choice([None, 0.5]), "enable_gqa": grouped}
    if draw.random() < 0.3:
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, **options), inputs
    mask = mask_of(draw, lead, rows, columns)
    inputs.append(mask if mask.dtype == torch.bool else mask.to(dtype))
    return lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m, **options), inputs


def attention_spelled(draw):
    rows, columns, width = draw.choice([1, 3, 5]), draw.choice([2, 5]), draw.choice([2, 4])
    q, k, v = torch.randn(2, 2, rows, width), torch.randn(2, 2, columns, width), torch.randn(2, 2, columns, width)
    keep = torch.rand(2, 1, rows, columns) > 0.5
    keep[0, 0, 0] = False
    mask = torch.zeros(keep.shape).masked_fill(~keep, NEVER)
    causal = draw.random() < 0.3
    if draw.random() < 0.5:
        if causal:
            return lambda q, k, v: aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, is_causal=True)[0], [q, k, v]
        return lambda q, k, v, m: aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask=m)[0], [q, k, v, mask]
    if causal:
        return lambda q, k, v: aten._scaled_dot_product_attention_math(q, k, v, is_causal=True), [q, k, v]
    return lambda q, k, v, m: aten._scaled_dot_product_attention_math(q, k, v, m), [q, k, v, mask]


def safe_softmax(draw):
    shape = draw.choice([(3, 4), (2, 3, 4), (5,), (3, 1)])
    x = torch.randn(shape).masked_fill(torch.rand(shape) > 0.5, NEVER)
    x[0] = NEVER
    axis = draw.randrange(-len(shape), len(shape))
    return lambda x: aten._safe_softmax(x, axis), [x]


# -- axes, tensors without dims, counts of 0 ---------------------------------------------------------------------------

def plain(draw, shape, dtype=None):
    dtype = dtype or draw.choice([torch.float32, torch.float32, torch.int64, torch.complex64, torch.bool, torch.bfloat16])
    return (torch.randn(shape) * 3).to(dtype) if dtype != torch.complex64 else torch.randn(shape, dtype=dtype)


def shape_of(draw):
    return draw.choice([(), (), (1,), (3,), (2, 3), (2, 0), (0,), (2, 3, 2), (1, 1)])


def axis_of(draw, shape):
    return draw.randrange(-max(len(shape), 1), max(len(shape), 1))


ALONG = {  # operators that take a tensor and an axis
    "sum": lambda x, d: x.sum(d), "sum_keep": lambda x, d: x.sum(d, keepdim=True), "prod": lambda x, d: x.prod(d),
    "mean": lambda x, d: x.mean(d), "amax": lambda x, d: x.amax(d), "max": lambda x, d: x.max(d), "min": lambda x, d: x.min(d, True),
    "any": lambda x, d: x.any(d), "all": lambda x, d: x.all(d, True), "argmax": lambda x, d: x.argmax(d, True),
    "argmin": lambda x, d: x.argmin(d), "aminmax": lambda x, d: torch.aminmax(x, dim=d, keepdim=True),
    "var": lambda x, d: x.var(d, unbiased=False), "std": lambda x, d: x.std(d, correction=0),
    "var_mean": lambda x, d: torch.var_mean(x, d, correction=0), "softmax": lambda x, d: x.softmax(d),
    "log_softmax": lambda x, d: x.log_softmax(d), "logsumexp": lambda x, d: x.logsumexp(d), "norm": lambda x, d: x.norm(2, d),
    "vector_norm": lambda x, d: torch.linalg.vector_norm(x, 1, d), "count_nonzero": lambda x, d: x.count_nonzero(d),
    "cumsum": lambda x, d: x.cumsum(d), "cumprod": lambda x, d: x.cumprod(d), "sort": lambda x, d: x.sort(d, stable=True),
    "argsort": lambda x, d: x.argsort(d, stable=True), "flip": lambda x, d: x.flip(d), "roll": lambda x, d: x.roll(1, d),
    "squeeze": lambda x, d: x.squeeze(d), "unsqueeze": lambda x, d: x.unsqueeze(d), "flatten": lambda x, d: x.flatten(d),
    "transpose": lambda x, d: x.transpose(d, 0), "movedim": lambda x, d: x.movedim(d, 0), "cat": lambda x, d: torch.cat([x, x], d),
    "stack": lambda x, d: torch.stack([x, x], d), "size": lambda x, d: x * x.size(d), "unbind": lambda x, d: x.unbind(d),
    "chunk": lambda x, d: x.chunk(2, d), "split": lambda x, d: x.split(1, d), "select": lambda x, d: x.select(d, -1),
    "narrow": lambda x, d: x.narrow(d, 0, 1), "narrow_0": lambda x, d: x.narrow(d, 0, 0), "unfold": lambda x, d: x.unfold(d, 1, 1),
    "unfold_0": lambda x, d: x.unfold(d, 0, 1), "diff": lambda x, d: x.diff(dim=d), "diff_0": lambda x, d: x.diff(n=0, dim=d),
    "diff_2": lambda x, d: x.diff(n=2, dim=d), "diff_prepend": lambda x, d: x.diff(n=0, dim=d, prepend=x),
    "diff_append": lambda x, d: x.diff(n=1, dim=d, append=x), "diff_both": lambda x, d: x.diff(n=3, dim=d, append=x, prepend=x),
    "topk": lambda x, d: x.topk(1, d), "topk_0": lambda x, d: x.topk(0, d), "glu": lambda x, d: F.glu(x, d),
    "repeat_each": lambda x, d: x.repeat_interleave(2, d), "repeat_each_0": lambda x, d: x.repeat_interleave(0, d),
    "index_select": lambda x, d: x.index_select(d, torch.tensor([0, 0])), "index_select_0": lambda x, d: x.index_select(d, torch.zeros(0, dtype=torch.int64)),
    "index_select_number": lambda x, d: x.index_select(d, torch.tensor(0)),
    "index_fill": lambda x, d: x.index_fill(d, torch.tensor([0]), 2), "index_fill_number": lambda x, d: x.index_fill(d, torch.tensor(0), 2),
    "index_add": lambda x, d: x.index_add(d, torch.tensor([0]), x.narrow(d, 0, 1)), "index_copy": lambda x, d: x.index_copy(d, torch.tensor([0]), x.narrow(d, 0, 1)),
    "index_add_number": lambda x, d: x.index_add(d, torch.tensor([0]), x), "index_copy_number": lambda x, d: x.index_copy(d, torch.tensor([0]), x + x),
    "gather": lambda x, d: x.gather(d, torch.zeros_like(x, dtype=torch.int64)), "gather_number": lambda x, d: x.gather(d, torch.tensor(0)),
    "gather_line": lambda x, d: x.gather(d, torch.tensor([0, 0])), "gather_one": lambda x, d: x.gather(d, torch.tensor([0])),
    "scatter": lambda x, d: x.scatter(d, torch.zeros_like(x, dtype=torch.int64), x + x), "scatter_number": lambda x, d: x.scatter(d, torch.tensor(0), 2),
    "scatter_one": lambda x, d: x.scatter(d, torch.tensor([0]), 2), "scatter_add": lambda x, d: x.scatter_add(d, torch.zeros_like(x, dtype=torch.int64), x),
    "scatter_add_number": lambda x, d: x.scatter_add(d, torch.tensor(0), x.sum()), "take_along": lambda x, d: x.take_along_dim(torch.zeros_like(x, dtype=torch.int64), d),
    "scatter_prod": lambda x, d: x.scatter_reduce(d, torch.zeros_like(x, dtype=torch.int64), x, "prod"),
    "select_scatter": lambda x, d: x.select_scatter(x.select(d, 0) * 2, d, 0), "slice_scatter": lambda x, d: x.slice_scatter(x.narrow(d, 0, 1) * 2, d, 0, 1),
    "tensor_split": lambda x, d: x.tensor_split(2, d), "logcumsum": lambda x, d: x.cumsum(d).flip(d).cumsum(d),
    "layer_norm": lambda x, d: F.layer_norm(x, x.shape[d:] if d < 0 and x.dim() else x.shape),
    "vecdot": lambda x, d: torch.linalg.vecdot(x, x, dim=d), "cross": lambda x, d: torch.linalg.cross(x, x + x.flip(d), dim=d),
    "unflatten": lambda x, d: x.unflatten(d, (-1, 1)), "swapaxes": lambda x, d: x.swapaxes(d, -1),
}
COUNTS = {  # operators that take a count or nothing
    "repeat_0": lambda x: x.repeat(*([0] * max(x.dim(), 1))), "repeat": lambda x: x.repeat(*([2] * (x.dim() + 1))), "tile": lambda x: x.tile((2,)),
    "tile_none": lambda x: x.tile(()), "rot90_0": lambda x: x.rot90(0), "rot90": lambda x: x.rot90(-1), "roll_all": lambda x: x.roll(2), "roll_0": lambda x: x.roll(0),
    "tril": lambda x: x.tril(-1), "triu": lambda x: x.triu(1), "flip_none": lambda x: x.flip(()), "sum_all": lambda x: x.sum(), "sum_none": lambda x: x.sum(()),
    "mean_all": lambda x: x.mean(), "ravel": lambda x: x.ravel(), "squeeze_all": lambda x: x.squeeze(), "t": lambda x: x.t(), "mT": lambda x: x.mT,
    "expand_0": lambda x: x.unsqueeze(0).expand(0, *x.shape), "pad": lambda x: F.pad(x, (1, 2)), "pad_0": lambda x: F.pad(x, (0, 0)), "take": lambda x: x.take(torch.tensor([0])),
    "take_number": lambda x: x.take(torch.tensor(0)), "masked_fill": lambda x: x.masked_fill(torch.tensor(True), 2), "where": lambda x: torch.where(torch.tensor([True]), x, x + x),
    "diag": lambda x: x.diag(), "diag_embed": lambda x: x.diag_embed(1), "diagflat": lambda x: x.diagflat(-1), "trace": lambda x: x.trace(), "argmax_all": lambda x: x.argmax(),
    "argmin_keep": lambda x: x.argmin(None, True), "outer": lambda x: torch.outer(x, x), "dot": lambda x: torch.dot(x, x), "kron": lambda x: torch.kron(x, x),
    "inner": lambda x: torch.inner(x, x), "tensordot_0": lambda x: torch.tensordot(x, x, 0), "tensordot_1": lambda x: torch.tensordot(x.unsqueeze(-1), x.unsqueeze(0), 1),
    "atleast_3d": lambda x: torch.atleast_3d(x), "hstack": lambda x: torch.hstack([x, x]), "vstack": lambda x: torch.vstack([x, x]), "dstack": lambda x: torch.dstack([x, x]),
    "column_stack": lambda x: torch.column_stack([x, x]), "block_diag": lambda x: torch.block_diag(x, x), "cartesian": lambda x: torch.cartesian_prod(x, x),
    "meshgrid": lambda x: torch.meshgrid(x, x, indexing="ij"), "index_mask": lambda x: torch.where(x != 0, x, x), "norm_all": lambda x: x.norm(), "var_all": lambda x: x.var(unbiased=False),
    "index_put": lambda x: x.index_put((torch.tensor([0]),), x.sum()), "index": lambda x: x[torch.tensor([0, 0])], "index_number": lambda x: x[torch.tensor(0)],
    "eye_0": lambda x: torch.eye(0) + x.sum(), "linspace_1": lambda x: torch.linspace(1, 2, 1) + x, "linspace_0": lambda x: torch.linspace(1, 2, 0) + x.sum(),
    "arange_0": lambda x: torch.arange(0) + x.sum(), "logaddexp": lambda x: torch.logaddexp(x, x + 1), "logaddexp2": lambda x: torch.logaddexp2(x, x),
    "nan_to_num": lambda x: torch.nan_to_num(x / (x - x)), "matrix_power_0": lambda x: torch.matrix_power(x, 0), "matrix_power": lambda x: torch.matrix_power(x, 3),
    "vander": lambda x: torch.linalg.vander(x), "vander_0": lambda x: torch.linalg.vander(x, N=0), "vander_n": lambda x: torch.vander(x, 3, True), "fftshift": lambda x: torch.fft.fftshift(x),
    "ifftshift": lambda x: torch.fft.ifftshift(x, 0), "linalg_diagonal": lambda x: torch.linalg.diagonal(x), "multi_dot": lambda x: torch.linalg.multi_dot([x, x.mT, x]),
    "pow_in_place": lambda x: x.clone().pow_(2), "pow_tensor_in_place": lambda x: x.clone().pow_(x.abs()), "chain_matmul": lambda x: torch.chain_matmul(x, x.mT),
    "heaviside": lambda x: torch.heaviside(x, x), "logit": lambda x: torch.logit(x.sigmoid()), "xlogy": lambda x: torch.xlogy(x, x), "histc": lambda x: torch.histc(x, 4, -3, 3),
}


def along(draw):
    name = draw.choice(sorted(ALONG))
    shape = shape_of(draw)
    axis = axis_of(draw, shape)
    return name, lambda x: ALONG[name](x, axis), [plain(draw, shape)], f"{shape} dim {axis}"


def counted(draw):
    name = draw.choice(sorted(COUNTS))
    shape = shape_of(draw) if name not in ("matrix_power", "matrix_power_0") else (3, 3)
    return name, COUNTS[name], [plain(draw, shape)], f"{shape}"


# -- running -----------------------------------------------------------------------------------------------------------


def program_draw(draw):
    kind = draw.randrange(10)
    if kind < 3:
        maker = draw.choice([attention, attention, attention_spelled, safe_softmax])
        return (maker.__name__,) + tuple(maker(draw)) + ("",)
    return along(draw) if kind < 7 else counted(draw)


def is_possible(function, inputs):
    try:
        function(*[x.clone() for x in inputs])
        return True
    except Exception:
        return False


def run(phasor, folder, form, device):
    arguments = [phasor, "run", f"{folder}/{form}.pt2", "--inputs", f"{folder}/inputs_0.safetensors", "--expect",
                 f"{folder}/outputs_0.safetensors", "--device", device, "--cache", ":memory:"]
    result = subprocess.run(arguments, capture_output=True, text=True)
    return result.returncode, result.stderr.strip().splitlines()[-1:] or [""]


def main(phasor, out, count, seed):
    draw, counts, tried = random.Random(seed), {}, 0
    torch.manual_seed(seed)
    devices = ["cpu"] + (["cuda"] if "PHASOR_DRIVER" in os.environ else [])
    while tried < count:
        name, function, inputs, what = program_draw(draw)
        if not is_possible(function, inputs):
            continue
        folder = f"{out}/{seed}_{tried:03d}_{name}"
        try:
            case_write(folder, function, [tuple(inputs)], None)
        except Exception as error:
            print(f"{name}: not exported: {str(error).splitlines()[0][:100]}")
            shutil.rmtree(folder)
            continue
        tried += 1
        worst = 0
        for form in ("plain", "core"):
            for device in devices:
                code, message = run(phasor, folder, form, device)
                counts[code] = counts.get(code, 0) + 1
                worst = max(worst, code)
                if code:
                    print(f"{code} {device} {folder}/{form} {what} {inputs[0].dtype}: {message[0][:220]}", flush=True)
        if not worst:
            shutil.rmtree(folder)
    print(f"{tried} programs, {sum(counts.values())} runs; by exit code: {dict(sorted(counts.items()))}")
    return 1 if set(counts) - {0, 3} else 0


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
