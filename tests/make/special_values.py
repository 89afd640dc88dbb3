"""special_values.py - what eager PyTorch gives at zeros of both signs, infinities, NaN, denormal, tiny and huge numbers.

    python3 special_values.py cpu tests/data/special_cpu.safetensors        on any machine
    python3 special_values.py cuda tests/data/special_cuda.safetensors      on one with a GPU

    ->  unary.c64                 the operand of functions of one operand: every combination of the numbers of PARTS
        left.c64, right.c64       the operands of functions of two
        exp.c64, div.c64, ...     the results, by row of src/graph/ops.def; pow_3.c64 is the row pow with the exponent 3

Complex tensors are stored as their real views. PyTorch's two devices differ at some of these operands; tests/test_special.c
holds Phasor to what they agree on, and to one of the two elsewhere. Needs torch and safetensors.
"""
import sys

import torch
from safetensors.torch import save_file

INF, NAN = float("inf"), float("nan")
PARTS = {
    "f32": [-INF, -3e38, -2.5, -1.0, -1e-40, -0.0, 0.0, 1e-40, 0.5, 1.0, 89.5, 1e20, INF, NAN],
    "f64": [-INF, -1.7e308, -2.5, -1.0, -1e-310, -0.0, 0.0, 1e-310, 0.5, 1.0, 710.0, 1e200, INF, NAN],
}
PARTS_OF_TWO = {
    "f32": [INF, -2.0, -0.0, 0.0, 1e-36, 1e30, NAN],
    "f64": [INF, -2.0, -0.0, 0.0, 1e-300, 1e250, NAN],
}
REAL = {"f32": torch.float32, "f64": torch.float64}
COMPLEX = {"c64": "f32", "c128": "f64"}

UNARY = {
    "neg": torch.neg, "abs": torch.abs, "sign": torch.sgn, "reciprocal": torch.reciprocal, "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt, "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1, "log": torch.log,
    "log2": torch.log2, "log10": torch.log10, "log1p": torch.log1p, "sin": torch.sin, "cos": torch.cos,
    "tan": torch.tan, "asin": torch.asin, "acos": torch.acos, "atan": torch.atan, "sinh": torch.sinh,
    "cosh": torch.cosh, "tanh": torch.tanh, "asinh": torch.asinh, "acosh": torch.acosh, "atanh": torch.atanh,
    "sigmoid": torch.sigmoid, "is_nan": torch.isnan, "is_inf": torch.isinf, "not": torch.logical_not,
    "conj": lambda z: torch.conj(z).resolve_conj(), "angle": torch.angle,
}
UNARY_REAL = {"erf": torch.erf, "floor": torch.floor, "ceil": torch.ceil, "trunc": torch.trunc, "round": torch.round}
BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow, "eq": torch.eq,
          "ne": torch.ne}
BINARY_REAL = {
    "div_floor": torch.floor_divide, "div_trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "remainder": torch.remainder, "fmod": torch.fmod, "atan2": torch.atan2, "hypot": torch.hypot,
    "copysign": torch.copysign, "maximum": torch.maximum, "minimum": torch.minimum, "lt": torch.lt, "le": torch.le,
    "gt": torch.gt, "ge": torch.ge, "complex": torch.complex, "polar": torch.polar,
}
POWERS = {"pow_2": 2, "pow_3": 3, "pow_minus_1": -1, "pow_minus_2": -2, "pow_half": 0.5, "pow_0": 0}


def numbers(parts, dtype):
    return torch.tensor(parts[dtype], dtype=REAL[dtype])


def grid(parts, dtype):
    n = numbers(parts, dtype)
    re, im = torch.meshgrid(n, n, indexing="ij")
    return torch.complex(re.reshape(-1), im.reshape(-1))


def pairs(x):
    left, right = torch.meshgrid(torch.arange(len(x)), torch.arange(len(x)), indexing="ij")
    return x[left.reshape(-1)].clone(), x[right.reshape(-1)].clone()


def stored(tensor):
    tensor = tensor.cpu()
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).contiguous().clone()


def add_results(out, dtype, device, unary, binary, operands):
    one, left, right = (t.to(device) for t in operands)
    for name, function in unary.items():
        out[f"{name}.{dtype}"] = stored(function(one))
    for name, function in binary.items():
        out[f"{name}.{dtype}"] = stored(function(left, right))
    for name, exponent in POWERS.items():
        out[f"{name}.{dtype}"] = stored(one ** exponent)
    for name, tensor in zip(("unary", "left", "right"), operands):
        out[f"{name}.{dtype}"] = stored(tensor)


def main():
    device, path = sys.argv[1:]
    out = {}
    for dtype in REAL:
        n = numbers(PARTS, dtype)
        add_results(out, dtype, device, UNARY | UNARY_REAL, BINARY | BINARY_REAL, (n, *pairs(n)))
    for dtype, part in COMPLEX.items():
        add_results(out, dtype, device, UNARY, BINARY, (grid(PARTS, part), *pairs(grid(PARTS_OF_TWO, part))))
    save_file(out, path, metadata={"torch": torch.__version__, "device": device})


main()
