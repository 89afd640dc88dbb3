#!/usr/bin/env python3
"""sums.py - sums and running sums along every axis: how fast, and how near to float64, beside eager PyTorch.

    tools/bench/sums.py [--phasor build/release/phasor] [--json sums.json]
        sum     f32   [1000000] 0         kernels 2    Phasor 4.1 us, 0.83 of a copy    eager 6.0 us    error 5.1e-08, eager 9.6e-08
        cumsum  bf16  [64, 16384] 1       ...

Needs a GPU and PyTorch. `phasor bench` times Phasor and a copy of the bytes that a call must move, in one run; errors are
the largest over all results, relative to the result (of running sums too: the numbers are positive), against float64.
"""

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile

import torch

SHAPES = [((1000000,), 0), ((200000, 4), 0), ((1000, 1000), 0), ((1000, 1000), 1), ((64, 16384), 0), ((64, 16384), 1),
          ((16384, 64), 0), ((16384, 64), 1), ((32, 1000, 64), 1), ((8192, 8192), 0), ((8192, 8192), 1)]
OPERATORS = {"sum": "y = sum(x) axes=[{axis}]", "cumsum": "y = cumsum(x) axis={axis}"}
TORCH = {"sum": torch.sum, "cumsum": torch.cumsum}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "c64": torch.complex64}
NAMES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.complex64: "C64"}


def tensors_write(path, tensors):
    """A safetensors file, by hand: no library is needed for it."""
    header, offset, parts = {}, 0, []
    for name, tensor in tensors.items():
        data = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        data = data.contiguous().view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        parts.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def tensor_read(path, name):
    with open(path, "rb") as file:
        blob = file.read()
    length = struct.unpack("<Q", blob[:8])[0]
    entry = json.loads(blob[8:8 + length])[name]
    first, last = entry["data_offsets"]
    dtype = {text: dtype for dtype, text in NAMES.items()}[entry["dtype"]]
    data = bytearray(blob[8 + length + first:8 + length + last])
    return torch.frombuffer(data, dtype=dtype).reshape(entry["shape"])


def command(arguments):
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)}\n{done.stderr}")
    return done.stdout


def eager_time(call):
    """Microseconds on the device: batches behind a gate, so that the host is not what is timed."""
    for _ in range(20):
        call()
    samples = []
    for _ in range(7):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(3_000_000)
        start.record()
        for _ in range(100):
            call()
        end.record()
        end.synchronize()
        samples.append(start.elapsed_time(end) * 10)
    return sorted(samples)[len(samples) // 2]


def error(result, truth):
    wide = torch.complex128 if truth.is_complex() else torch.float64
    if truth.is_complex() and not result.is_complex():
        result = torch.view_as_complex(result.contiguous())
    return ((result.to(wide) - truth).abs() / truth.abs()).max().item()


def measure(phasor, folder, operator, dtype, shape, axis, device):
    generator = torch.Generator().manual_seed(1)
    parts = torch.rand(shape + ((2,) if dtype == "c64" else ()), generator=generator) + 0.01
    x = torch.view_as_complex(parts) if dtype == "c64" else parts.to(DTYPES[dtype])
    truth = TORCH[operator](x.to(torch.complex128 if dtype == "c64" else torch.float64), axis)
    program, inputs, outputs = (os.path.join(folder, name) for name in ("p.phasor", "in.safetensors", "out.safetensors"))
    with open(program, "w") as file:
        file.write(f'phasor 1 "{operator}"\ninput x: {dtype}{list(shape)}\n'
                   f"{OPERATORS[operator].format(axis=axis)}\noutput y\n")
    tensors_write(inputs, {"input_0": x})
    command([phasor, "--cache", ":memory:", "run", program, "--device", "cuda", "--inputs", inputs, "--outputs", outputs])
    figures = json.loads(command([phasor, "--cache", ":memory:", "bench", program, "--json"]))
    on_device = x.to(device)
    return {
        "operator": operator, "dtype": dtype, "shape": list(shape), "axis": axis, "kernels": figures["kernels"],
        "us": figures["device_us"]["p50"], "share_of_copy": figures["share_of_copy"],
        "eager_us": eager_time(lambda: TORCH[operator](on_device, axis)),
        "error": error(tensor_read(outputs, "output_0"), truth),
        "eager_error": error(TORCH[operator](on_device, axis).cpu(), truth),
    }


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--phasor", default=os.path.join(here, "../../build/release/phasor"))
    parser.add_argument("--dtypes", default="f32,bf16,c64")
    parser.add_argument("--json", help="writes all figures to this file")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("sums.py: PyTorch sees no GPU")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for operator in OPERATORS:
            for dtype in options.dtypes.split(","):
                for shape, axis in SHAPES if dtype != "c64" else [s for s in SHAPES if s[0][0] != 8192]:
                    row = measure(options.phasor, folder, operator, dtype, shape, axis, "cuda")
                    rows.append(row)
                    print(f"{operator:<8}{dtype:<6}{str(list(shape)) + ' ' + str(axis):<18}kernels {row['kernels']}    "
                          f"Phasor {row['us']:.1f} us, {row['share_of_copy']:.2f} of a copy    "
                          f"eager {row['eager_us']:.1f} us    error {row['error']:.1e}, eager {row['eager_error']:.1e}",
                          flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
