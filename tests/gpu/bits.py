#!/usr/bin/env python3
"""bits.py - Phasor on a GPU gives the bits of eager PyTorch on that GPU, over fresh random inputs (needs PyTorch).

    tests/gpu/bits.py --phasor build/release/phasor --cases tests/cases --rounds 3

    bench_rope_table_f32  2x257  seed 17  output_0: 2105344 elements, 0 differ
    ...
    25 runs, 0 differing elements

Exit 1 when one element differs. --device cpu compares the CPU device (without fused multiply-add) with eager on the CPU.
Left out there: programs that make their table, because math functions may differ, and odd head sizes, whose last elements
eager's CPU loops compute in another way than the others.
"""

import argparse
import ctypes
import json
import os
import struct
import subprocess
import sys
import tempfile
import warnings

import torch

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
          "I32": torch.int32, "U8": torch.uint8, "BOOL": torch.bool}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
BITS = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}

# -- tensor files ------------------------------------------------------------------------------------------------------


def tensors_write(path, tensors):
    """{"input_0": tensor} -> a .safetensors file"""
    header, parts, at = {}, [], 0
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        nbytes = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, at + nbytes]}
        parts.append(ctypes.string_at(tensor.data_ptr(), nbytes))
        at += nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def tensors_read(path):
    with open(path, "rb") as file:
        contents = bytearray(file.read())
    length, = struct.unpack_from("<Q", contents)
    tensors = {}
    for name, row in json.loads(bytes(contents[8:8 + length])).items():
        if name == "__metadata__":
            continue
        dtype, (start, end) = DTYPES[row["dtype"]], row["data_offsets"]
        count = (end - start) // dtype.itemsize
        data = torch.empty(0, dtype=dtype)
        if count:
            data = torch.frombuffer(contents, dtype=dtype, offset=8 + length + start, count=count)
        tensors[name] = data.reshape(row["shape"])
    return tensors


# -- the programs, eager -----------------------------------------------------------------------------------------------


def turn(x, factor, wide):
    """Neighbours of the last dim are complex numbers, turned by the factor."""
    turned = torch.view_as_complex(x.to(wide).reshape(*x.shape[:-1], -1, 2)) * factor
    return torch.view_as_real(turned).flatten(3).type_as(x)


def by_table(x, table):
    return (turn(x, torch.view_as_complex(table)[None, :, None, :], table.dtype),)


def by_buffer(freqs):
    """The table is a buffer of the program; both tensors are turned."""

    def call(q, k):
        factor = freqs.to(q.device)[: q.shape[1]][None, :, None, :]
        return turn(q, factor, torch.float32), turn(k, factor, torch.float32)

    return call


def by_rates(rates):
    """The program makes the table from the length."""

    def call(q, k):
        angle = torch.outer(torch.arange(q.shape[1], device=q.device).float(), rates.to(q.device))
        factor = torch.polar(torch.ones_like(angle), angle)[None, :, None, :]
        return turn(q, factor, torch.float32), turn(k, factor, torch.float32)

    return call


def table_inputs(dtype, heads, width, wide):
    return lambda batch, length: ((batch, length, heads, width, dtype), (length, width // 2, 2, wide))


def pair_inputs(dtype, heads, groups, width):
    return lambda batch, length: ((batch, length, heads, width, dtype), (batch, length, groups, width, dtype))


F32, BF16, F64 = torch.float32, torch.bfloat16, torch.float64
SIZES = [(1, 1), (2, 257), (4, 1024)]

# name: shapes of the inputs, what makes the eager call, the buffer that it needs, sizes
PROGRAMS = {
    "bench_rope_table_f32": (table_inputs(F32, 32, 128, F32), by_table, None, SIZES),
    "bench_rope_table_bf16": (table_inputs(BF16, 32, 128, F32), by_table, None, SIZES),
    "bench_rope_d72_bf16": (table_inputs(BF16, 16, 72, F32), by_table, None, SIZES),
    "bench_rope_d42_f32": (table_inputs(F32, 4, 42, F32), by_table, None, SIZES),
    "bench_rope_f64": (table_inputs(F32, 8, 64, F64), by_table, None, SIZES),
    "qk_rope_f32": (pair_inputs(F32, 4, 2, 64), by_buffer, "freqs", [(2, 17)]),
    "qk_rope_bf16_dynamic": (pair_inputs(BF16, 8, 2, 128), by_buffer, "freqs", [(1, 1), (2, 257), (3, 512)]),
    "bench_rope_f32": (pair_inputs(F32, 32, 8, 128), by_rates, "inv", SIZES),
    "bench_rope_bf16": (pair_inputs(BF16, 32, 8, 128), by_rates, "inv", SIZES),
}


ON_CUDA_ALONE = ("bench_rope_d72_bf16", "bench_rope_d42_f32", "bench_rope_f32", "bench_rope_bf16")


def eager_call(name, options):
    _, make, buffer, _ = PROGRAMS[name]
    if buffer is None:
        return make
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.load(os.path.join(options.cases, name, "plain.pt2"))
    return make(exported.state_dict[buffer])


def random(description, generator):
    """Normal numbers of many magnitudes."""
    *shape, dtype = description
    scale = torch.exp2(torch.randint(-8, 9, shape, generator=generator).double())
    return (torch.randn(shape, generator=generator, dtype=F64) * scale).to(dtype)


# -- comparing ---------------------------------------------------------------------------------------------------------


def phasor_run(name, inputs, options, folder):
    paths = [os.path.join(folder, file) for file in ("inputs.safetensors", "outputs.safetensors")]
    tensors_write(paths[0], {f"input_{i}": tensor for i, tensor in enumerate(inputs)})
    command = [options.phasor, "run", os.path.join(options.cases, name, "plain.pt2"), "--inputs", paths[0], "--outputs", paths[1],
               "--device", options.device, "--cache", os.path.join(folder, "cache")]
    if options.device == "cpu":
        command.append("--no-fma")
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bits.py: {' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()}")
    found = tensors_read(paths[1])
    return [found[f"output_{i}"] for i in range(len(found))]


def bits_differing(a, b):
    """Of the elements; -1 when they cannot be compared."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return -1
    kind = BITS[a.element_size()]
    return int((a.contiguous().view(kind) != b.contiguous().view(kind)).sum())


def run_compare(name, call, size, seed, options, folder):
    generator = torch.Generator().manual_seed(seed)
    inputs = [random(description, generator) for description in PROGRAMS[name][0](*size)]
    expected = [tensor.cpu() for tensor in call(*(tensor.to(options.device) for tensor in inputs))]
    found = phasor_run(name, inputs, options, folder)
    if len(found) != len(expected):
        sys.exit(f"bits.py: {name} gives {len(found)} outputs; eager {len(expected)}")
    total = 0
    for i, (ours, theirs) in enumerate(zip(found, expected)):
        differing = bits_differing(ours, theirs)
        what = f"{theirs.numel()} elements, {differing} differ" if differing >= 0 else \
            f"{ours.dtype}{list(ours.shape)}, eager {theirs.dtype}{list(theirs.shape)}"
        print(f"{name}  {size[0]}x{size[1]}  seed {seed}  output_{i}: {what}", flush=True)
        total += differing if differing >= 0 else theirs.numel()
    return total


def options_read():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--phasor", default="build/release/phasor", help="the command")
    parser.add_argument("--cases", default="tests/cases", help="the folder of the programs")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="of both (default: cuda)")
    parser.add_argument("--rounds", type=int, default=2, help="of fresh inputs for each program and size (default: 2)")
    parser.add_argument("--seed", type=int, help="of the first round (default: another one each time)")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="some of " + ", ".join(PROGRAMS))
    options = parser.parse_args()
    unknown = [name for name in options.programs if name not in PROGRAMS]
    if unknown:
        parser.error(f"no program {unknown[0]}")
    return options


def main():
    options = options_read()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("bits.py: PyTorch sees no GPU")
    first = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "little")
    runs = differing = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in options.programs or PROGRAMS:
            if options.device == "cpu" and name in ON_CUDA_ALONE:
                continue
            call = eager_call(name, options)
            for size in PROGRAMS[name][3]:
                for seed in range(first, first + options.rounds):
                    differing += run_compare(name, call, size, seed, options, folder)
                    runs += 1
    print(f"{runs} runs, {differing} differing elements")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
