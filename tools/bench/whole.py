#!/usr/bin/env python3
"""whole.py - whole models (models.py) by Phasor, eager PyTorch and torch.compile, in one run and one table.

    tools/bench/models.sh                      all programs
    tools/bench/models.sh --only prefill,token,lengths,video --no-compile

In: the command, Python with PyTorch and safetensors, a GPU. Programs are made here, with random weights, into a folder
that is removed. Out: a row a program: milliseconds (medians), the error against a float64 run beside eager's, the device
memory of a call above the weights, the time of the first call. Times of Phasor are of `phasor bench`'s device time; those of
PyTorch are by events around one call, after warming up, the median of many.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import torch
from safetensors.torch import load_file, save_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import models  # noqa: E402


def median_ms(call, seconds=1.0, most=200):
    call()
    torch.cuda.synchronize()
    samples, end = [], time.time() + seconds
    while len(samples) < 5 or (time.time() < end and len(samples) < most):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        call()
        b.record()
        torch.cuda.synchronize()
        samples.append(a.elapsed_time(b))
    return sorted(samples)[len(samples) // 2]


class At(torch.nn.Module):
    """A decoder at positions that follow from its own length: `phasor bench` draws inputs, and these decide what is seen."""

    def __init__(self, module, start):
        super().__init__()
        self.module, self.start = module, start

    def forward(self, ids):
        return self.module(ids, torch.arange(self.start, self.start + ids.shape[1], device=ids.device))


def programs(only):
    """name, module, arguments"""
    rows = [("prefill", 2048, 0), ("token", 1, 3000), ("512", 512, 0), ("1024", 1024, 0), ("4096", 4096, 0)]
    for name, length, start in rows:
        if name in only or (not only and name in ("prefill", "token")) or ("lengths" in only and name[0].isdigit()):
            torch.manual_seed(0)
            module, _, _ = models.decoder()
            yield name, At(module, start), (torch.randint(0, 1000, (1, length)),)
    if not only or "video" in only:
        torch.manual_seed(0)
        module, args, _ = models.video()
        yield "video", module, args


def phasor(command, *words):
    done = subprocess.run([command, *words], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        print(f"phasor {' '.join(words)}: exit {done.returncode}\n{done.stderr[-2000:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout) if done.stdout.startswith("{") else {}


def relative_error(got, want):
    want = want.double()
    return float((got.double() - want).norm() / want.norm())


def in_double(module, args):
    """The same program in float64 on the CPU's numbers, on the GPU."""
    import copy
    wide = models.to_dtype(copy.deepcopy(module), torch.float64).cuda()
    for m in wide.modules():
        for k, b in m._buffers.items():
            if b is not None and b.is_complex():
                m._buffers[k] = b.to(torch.complex128)
    with torch.no_grad():
        out = wide(*[a.cuda().double() if a.is_floating_point() else a.cuda() for a in args])
    return out.cpu()


def row(options, folder, name, path, module, args):
    inputs, outputs = os.path.join(folder, "in.safetensors"), os.path.join(folder, "out.safetensors")
    save_file({f"input_{i}": a.contiguous() for i, a in enumerate(args)}, inputs)
    result = {"program": name}
    cache = os.path.join(folder, "cache-" + name)
    begin = time.time()
    ran = phasor(options.phasor, "run", path, "--inputs", inputs, "--outputs", outputs, "--cache", cache, "--json",
                 "--device", "cuda")
    result["first_process_s"] = time.time() - begin
    if ran:
        result["kernels"], result["compiled"] = ran["kernels"], ran["compiled"]
    bench = phasor(options.phasor, "bench", path, "--cache", cache, "--json", "--device", "cuda")
    if bench:
        result["bench"] = bench
    begin = time.time()
    phasor(options.phasor, "run", path, "--inputs", inputs, "--cache", cache, "--json", "--device", "cuda")
    result["warm_process_s"] = time.time() - begin
    with torch.no_grad():
        on_gpu = [a.cuda() for a in args]
        module = module.cuda()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        eager = module(*on_gpu)
        torch.cuda.synchronize()
        result["eager_memory_mb"] = (torch.cuda.max_memory_allocated() - before) / 1e6
        result["eager_ms"] = median_ms(lambda: module(*on_gpu))
        if not options.no_error:
            for b in module.buffers():
                if not b.is_complex():
                    b.zero_()
            eager = module(*on_gpu)
            for b in module.buffers():
                if not b.is_complex():
                    b.zero_()
            exact = in_double(module, args)
            result["eager_error"] = relative_error(eager.cpu(), exact)
            if os.path.exists(outputs):
                got = load_file(outputs)["output_0"]
                result["error"] = relative_error(got, exact)
        if not options.no_compile:
            for mode in ("default", "reduce-overhead"):
                torch._dynamo.reset()
                compiled = torch.compile(module, mode=mode)
                begin = time.time()
                compiled(*on_gpu)
                torch.cuda.synchronize()
                result[f"first_{mode}_s"] = time.time() - begin
                result[f"compile_{mode}_ms"] = median_ms(lambda: compiled(*on_gpu))
    return result


def line(result):
    bench = result.get("bench", {})
    times = {"Phasor": bench.get("device_us", {}).get("p50", 0) / 1e3, "eager": result["eager_ms"]}
    times.update({k[8:-3]: v for k, v in result.items() if k.startswith("compile_")})
    return (f"{result['program']:8} ms: " + ", ".join(f"{k} {v:.3f}" for k, v in times.items())
            + f"; host {bench.get('host_us', {}).get('p50', 0):.0f} us, {result.get('kernels')} kernels; error "
            + f"{result.get('error', 0):.2e}, eager {result.get('eager_error', 0):.2e}; first process "
            + f"{result['first_process_s']:.1f} s, torch.compile's first call {result.get('first_default_s', 0):.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--phasor", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--no-error", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    only = set(options.only.split(",")) - {""}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, module, args in programs(only):
            path = os.path.join(folder, name + ".pt2")
            torch.export.save(torch.export.export(module, args), path)
            rows.append(row(options, folder, name, path, module, args))
            os.remove(path)
            print(line(rows[-1]), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file)


if __name__ == "__main__":
    main()
