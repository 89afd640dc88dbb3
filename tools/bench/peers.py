#!/usr/bin/env python3
"""peers.py - Phasor beside PyTorch and other rotary kernels: the same programs, sizes and dtypes, one run, one table.

    tools/bench/peers.py --phasor build/release/phasor --cases tests/cases --programs rope_table_bf16 --sizes 4x8192

    rope_table_bf16  4x8192  537.9 MB                 device us  of copy  Phasor is   host us  first call
      Phasor                                              131.4    0.981                  4.1      0.01 s
      PyTorch eager, complex                              870.2    0.148     6.62 x      51.0
      torch.compile, real, static                         300.1    0.430     2.28 x      48.9       1.4 s

Times are medians. Device time is measured by events around batches of calls that were all issued before the device began
with them; host time from call to return, the launch queue never full; inputs and outputs are taken in turn from sets that
together exceed the L2 cache several times. `phasor bench` measures itself and the copy in the same way (README.md).

Without PyTorch, or without a GPU, Phasor stands alone in the table. --check computes all forms of the programs on the CPU,
small, and says whether they agree.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings

import acceptance

os.environ.setdefault("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")  # first calls are first calls
try:
    import torch
except ImportError:
    torch = None

DEVICE = "cuda"
BATCH_MICROSECONDS = 5000.0
CALLS_LEAST, CALLS_MOST = 4, 40
ROUNDS = 11
SETS_LEAST, SETS_MOST, SETS_BYTES = 2, 256, 512 << 20
CHUNK, CHUNKS = 32, 16
CYCLES_IN_A_MICROSECOND = 2000  # of the GPU's clock, at most

# -- the programs, in complex and in real form -------------------------------------------------------------------------


def pairs(x, wide):
    """[..., 2n] -> [..., n, 2] in the wide dtype"""
    return x.to(wide).unflatten(-1, (-1, 2))


def turn_complex(x, table, axes, wide):
    factor = torch.view_as_complex(table)
    factor = factor[None, :, None, :] if axes == "bshd" else factor[None, None]
    turned = torch.view_as_complex(pairs(x, wide).contiguous()) * factor
    return torch.view_as_real(turned).flatten(-2).to(x.dtype)


def turn_real(x, table, axes, wide):
    table = table[None, :, None, :, :] if axes == "bshd" else table[None, None]
    cos, sin = table[..., 0], table[..., 1]
    a, b = pairs(x, wide).unbind(-1)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2).to(x.dtype)


def rotation(dtype, heads, width, axes="bshd", wide="float32"):
    """One tensor turned by a given table."""

    def inputs(batch, length, device):
        shape = (batch, length, heads, width) if axes == "bshd" else (batch, heads, length, width)
        return random(shape, dtype, device), random((length, width // 2, 2), wide, device)

    def form(turn):
        return lambda x, table: (turn(x, table, axes, getattr(torch, wide)),)

    names = ("x.0", "x.1" if axes == "bshd" else "x.2")
    return {"inputs": inputs, "complex": form(turn_complex), "real": form(turn_real), "names": names}


def made_table(dtype):
    """Queries and keys turned by a table that the program makes from the length."""

    def inputs(batch, length, device):
        rates = 10000.0 ** (-torch.arange(0, 128, 2, dtype=torch.float32) / 128)
        q, k = (random((batch, length, heads, 128), dtype, device) for heads in (32, 8))
        return q, k, rates.to(device)

    def angles(q, rates):
        return torch.outer(torch.arange(q.shape[1], device=q.device).float(), rates)

    def complex_form(q, k, rates):
        angle = angles(q, rates)
        table = torch.view_as_real(torch.polar(torch.ones_like(angle), angle))
        return tuple(turn_complex(x, table, "bshd", torch.float32) for x in (q, k))

    def real_form(q, k, rates):
        angle = angles(q, rates)
        table = torch.stack((angle.cos(), angle.sin()), -1)
        return tuple(turn_real(x, table, "bshd", torch.float32) for x in (q, k))

    return {"inputs": inputs, "complex": complex_form, "real": real_form, "names": ("q.0", "q.1")}


def packed(dtype):
    """Queries, keys and values in one tensor; what is turned leaves it in the order of attention."""
    heads, groups, width = 32, 8, 128

    def inputs(batch, length, device):
        return (random((batch, length, (heads + 2 * groups) * width), dtype, device),
                random((length, width // 2, 2), "float32", device))

    def form(turn):
        def run(qkv, table):
            parts = qkv.split([heads * width, groups * width, groups * width], -1)
            q, k, v = (part.unflatten(-1, (-1, width)) for part in parts)
            return (turn(q, table, "bshd", torch.float32).transpose(1, 2),
                    turn(k, table, "bshd", torch.float32).transpose(1, 2), v.transpose(1, 2).contiguous())

        return run

    return {"inputs": inputs, "complex": form(turn_complex), "real": form(turn_real), "names": ("qkv.0", "qkv.1")}


def normed(dtype):
    """A root mean square norm over the heads' width, then the turn."""

    def inputs(batch, length, device):
        return (random((batch, length, 32, 128), dtype, device), random((length, 64, 2), "float32", device),
                random((128,), "float32", device))

    def form(turn):
        def run(x, table, weight):
            h = x.float()
            h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * weight
            return (turn(h, table, "bshd", torch.float32).to(x.dtype),)

        return run

    return {"inputs": inputs, "complex": form(turn_complex), "real": form(turn_real), "names": ("x.0", "x.1")}


PROGRAMS = {
    "rope_table_bf16": rotation("bfloat16", 32, 128),
    "rope_table_f32": rotation("float32", 32, 128),
    "rope_bf16": made_table("bfloat16"),
    "rope_f64": rotation("float32", 8, 64, wide="float64"),
    "rope_d72_bf16": rotation("bfloat16", 16, 72),
    "rope_d42_f32": rotation("float32", 4, 42),
    "rope_bhsd_bf16": rotation("bfloat16", 8, 128, axes="bhsd"),
    "rope_qkv_bf16": packed("bfloat16"),
    "rms_rope_bf16": normed("bfloat16"),
}


def random(shape, dtype, device):
    return torch.randn(shape, device=device, dtype=torch.float32).to(getattr(torch, dtype))


# -- other rotary kernels ----------------------------------------------------------------------------------------------
# Each makes a call for the program's inputs, or returns None where it has no counterpart. ImportError: not installed.


def peer_liger(name, inputs):
    """Halves instead of neighbours, in place, [batch, heads, length, width]."""
    rope = importlib.import_module("liger_kernel.ops.rope").LigerRopeFunction
    if name != "rope_bf16":
        return None
    length = inputs[0].shape[1]
    angle = torch.rand((1, length, 128), device=DEVICE)
    cos, sin = angle.cos().to(inputs[0].dtype), angle.sin().to(inputs[0].dtype)
    return lambda q, k, rates: rope.apply(q.transpose(1, 2), k.transpose(1, 2), cos, sin)


def peer_flashinfer(name, inputs):
    """Neighbours, in place."""
    apply = importlib.import_module("flashinfer").apply_rope_with_cos_sin_cache_inplace
    if name != "rope_bf16":
        return None
    batch, length = inputs[0].shape[:2]
    positions = torch.arange(length, device=DEVICE).repeat(batch)
    angle = torch.rand((length, 64), device=DEVICE)
    cache = torch.cat((angle.cos(), angle.sin()), -1).contiguous()

    def call(q, k, rates):
        q, k = q.view(batch * length, -1), k.view(batch * length, -1)
        apply(positions, q, k, 128, cache, is_neox=False)
        return q, k

    return call


def peer_flash_attn(name, inputs):
    """Neighbours; the table has the dtype of the input."""
    apply = importlib.import_module("flash_attn.layers.rotary").apply_rotary_emb
    if name not in ("rope_table_bf16", "rope_table_f32"):
        return None
    cos = inputs[1][..., 0].to(inputs[0].dtype).contiguous()
    sin = inputs[1][..., 1].to(inputs[0].dtype).contiguous()
    return lambda x, table: (apply(x, cos, sin, interleaved=True),)


def peer_transformer_engine(name, inputs):
    """Neighbours; makes cos and sin of the angles itself."""
    apply = importlib.import_module("transformer_engine.pytorch.attention").apply_rotary_pos_emb
    if name not in ("rope_table_bf16", "rope_table_f32"):
        return None
    angle = torch.rand((inputs[0].shape[1], 1, 1, 128), device=DEVICE)
    return lambda x, table: (apply(x, angle, tensor_format="bshd", fused=True, interleaved=True),)


OTHERS = {"Liger": peer_liger, "FlashInfer": peer_flashinfer, "flash-attn": peer_flash_attn,
          "TransformerEngine": peer_transformer_engine}


def gpu_found():
    return torch is not None and torch.cuda.is_available()


# -- measuring ---------------------------------------------------------------------------------------------------------


def middle(samples):
    samples = sorted(samples)
    return samples[len(samples) // 2]


def nbytes(tensors):
    """Of the elements that are shown; a view of an input counts too."""
    return sum(t.numel() * t.element_size() for t in tensors if isinstance(t, torch.Tensor))


class Rotation:
    """Sets of inputs taken in turn; the outputs of a set live until its next turn, so they take turns too."""

    def __init__(self, call, inputs, sets):
        self.call, self.turn = call, 0
        self.sets = [inputs] + [tuple(x.clone() for x in inputs) for _ in range(sets - 1)]
        self.kept = [None] * sets

    def step(self):
        at = self.turn % len(self.sets)
        self.turn += 1
        self.kept[at] = self.call(*self.sets[at])


def batch_time(rotation, calls, gate_cycles):
    """Microseconds for a call: on the device, and for issuing it."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    if gate_cycles:
        torch.cuda._sleep(gate_cycles)
    start.record()
    before = time.perf_counter_ns()
    for _ in range(calls):
        rotation.step()
    issued = (time.perf_counter_ns() - before) / 1e3
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3 / calls, issued / calls


def device_time(rotation):
    batch_time(rotation, len(rotation.sets), 0)
    on_device, on_host = batch_time(rotation, 8, 0)
    calls = int(max(CALLS_LEAST, min(CALLS_MOST, BATCH_MICROSECONDS / on_device)))
    gate = int(1.5 * on_host * calls * CYCLES_IN_A_MICROSECOND)
    return middle([batch_time(rotation, calls, gate)[0] for _ in range(ROUNDS)])


def host_time(rotation):
    samples = []
    for _ in range(CHUNKS):
        torch.cuda.synchronize()
        for _ in range(CHUNK):
            before = time.perf_counter_ns()
            rotation.step()
            samples.append((time.perf_counter_ns() - before) / 1e3)
    torch.cuda.synchronize()
    return middle(samples)


def sets_for(set_bytes):
    free = torch.cuda.mem_get_info()[0]
    sets = max(SETS_LEAST, min(SETS_MOST, -(-SETS_BYTES // set_bytes)))
    return max(1, min(sets, int(free * 0.6 / (3 * set_bytes))))


def call_measure(call, inputs):
    """First call in seconds, device and host time of the others in microseconds, the first call's outputs."""
    torch.cuda.synchronize()
    before = time.perf_counter()
    outputs = call(*inputs)
    torch.cuda.synchronize()
    first = time.perf_counter() - before
    rotation = Rotation(call, inputs, sets_for(nbytes(inputs) + nbytes(outputs)))
    row = {"device_us": device_time(rotation), "host_us": host_time(rotation), "first_s": first}
    return row, outputs


def copy_measure(count):
    """The copy that PyTorch makes, of half the bytes to as many others."""
    half = max(count // 2, 256)
    sets = sets_for(2 * half)
    places = [(torch.empty(half, dtype=torch.uint8, device=DEVICE), torch.zeros(half, dtype=torch.uint8, device=DEVICE))
              for _ in range(sets)]
    rotation = Rotation(lambda to, start: to.copy_(start), places[0], 1)
    rotation.sets, rotation.kept = places, [None] * sets
    return {"device_us": device_time(rotation), "host_us": host_time(rotation)}


# -- one program -------------------------------------------------------------------------------------------------------


# What --peers chooses: name in the table, form, `dynamic` of torch.compile or None for eager.
VARIANTS = {
    "eager": ("PyTorch eager, complex", "complex", None),
    "eager-real": ("PyTorch eager, real", "real", None),
    "complex-static": ("torch.compile, complex, static", "complex", False),
    "complex-dynamic": ("torch.compile, complex, dynamic", "complex", True),
    "real-static": ("torch.compile, real, static", "real", False),
    "real-dynamic": ("torch.compile, real, dynamic", "real", True),
}


def variants(program, peers):
    """Name and call of those that are chosen."""
    for peer in peers:
        if peer in VARIANTS:
            title, form, dynamic = VARIANTS[peer]
            yield title, program[form] if dynamic is None else torch.compile(program[form], dynamic=dynamic)


def disagreement(outputs, expected):
    """The largest difference beyond what rounding in another order explains."""
    worst = 0.0
    for a, b in zip(outputs, expected):
        step = 2.0 ** -7 if b.dtype == torch.bfloat16 else 1e-5
        a, b = a.double(), b.double()
        worst = max(worst, ((a - b).abs() - step * (1 + b.abs())).max().item())
    return worst


def torch_rows(name, batch, length, options):
    program = PROGRAMS[name]
    inputs = program["inputs"](batch, length, DEVICE)
    rows, expected = [], None
    for title, call in variants(program, options.peers):
        torch.cuda.empty_cache()
        torch._dynamo.reset()
        try:
            row, outputs = call_measure(call, inputs)
        except Exception as error:  # a peer that cannot run this is a row that says so
            rows.append({"name": title, "note": f"failed: {type(error).__name__}: {str(error)[:60]}"})
            continue
        expected = expected or outputs
        if disagreement(outputs, expected) > 0:
            row["note"] = "another result"
        rows.append({"name": title, **row})
        del outputs
    for title, make in OTHERS.items() if "others" in options.peers else ():
        rows.extend(other_row(title, make, name, inputs))
    return rows


def other_row(title, make, name, inputs):
    try:
        call = make(name, inputs)
        if call is None:
            return []
        return [{"name": title, **call_measure(call, inputs)[0], "note": (make.__doc__ or "").strip().rstrip(".")}]
    except ImportError:
        return [{"name": title, "note": "not installed: skipped"}] if name in ("rope_bf16", "rope_table_bf16") else []
    except Exception as error:
        return [{"name": title, "note": f"failed: {type(error).__name__}: {str(error)[:60]}"}]


def phasor_row(name, batch, length, options, cache, *more):
    """The figures of `phasor bench`."""
    names = PROGRAMS[name]["names"]
    command = [options.phasor, "bench", os.path.join(options.cases, f"bench_{name}", "plain.pt2"), "--json", "--cache", cache,
               "--device", "cuda", "--dim", f"{names[0]}={batch}", "--dim", f"{names[1]}={length}", *more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"peers.py: {' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


# -- the table ---------------------------------------------------------------------------------------------------------


def cell(row, key, form):
    return form.format(row[key]) if row.get(key) else ""


def row_print(row, ours, copy):
    device, host = row.get("device_us"), row.get("host_us")
    share = f"{copy / device:.3f}" if copy and device else ""
    is_peer = row is not ours and not row["name"].startswith(("copy", "bare"))
    ratio = f"{device / ours['device_us']:.2f} x" if device and is_peer else ""
    host_ratio = f"{host / ours['host_us']:.1f} x" if host and is_peer else ""
    cells = [(cell(row, "device_us", "{:.2f}"), 11), (share, 9), (ratio, 10), (cell(row, "host_us", "{:.2f}"), 10),
             (host_ratio, 9), (cell(row, "first_s", "{:.3f} s"), 12)]
    line = "".join(f"{text:>{width}}" for text, width in cells)
    print(f"  {row['name']:<34}{line}  {row.get('note', '')}".rstrip(), flush=True)


def program_compare(name, batch, length, options, cache):
    found = phasor_row(name, batch, length, options, cache)
    copy = found["copy_us"]["p50"] if found["copy_us"] else None
    ours = {"name": "Phasor", "device_us": found["device_us"]["p50"], "host_us": found["host_us"]["p50"],
            "first_s": (found["cold_ms"] or found["first_ms"]) / 1e3, "note": f"{found['kernels']} kernel(s)"}
    if options.acceptance and (name, (batch, length)) in acceptance.FIRSTS:
        again = phasor_row(name, batch, length, options, cache, "--seconds", "0.02")
        found["process_ms"], found["process_compiled"] = again["first_ms"], again["first_compiled"]
    rows = [ours, {"name": "copy", "device_us": copy}, {"name": "bare launch", "host_us": found["launch_us"]["p50"]}]
    print(f"\n{name}  {batch}x{length}  {found['bytes'] / 1e6:.1f} MB, copy {found['copy_gb_per_s'] or 0:.0f} GB/s")
    print(f"  {'':<34}{'device us':>11}{'of copy':>9}{'Phasor is':>10}{'host us':>10}{'host':>9}{'first call':>12}", flush=True)
    for row in rows:
        row_print(row, ours, copy)
    if gpu_found():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peers = torch_rows(name, batch, length, options)
        peers.append({"name": "copy by PyTorch", **copy_measure(found["bytes"])})
        for row in peers:
            row_print(row, ours, copy)
        rows += peers
        torch.cuda.empty_cache()
    print(f"  Phasor's first call: {found['cold_ms'] or 0:.2f} ms with an empty cache (NVRTC alone {found['nvrtc_ms'] or 0:.2f}), "
          f"{found['cached_ms'] or 0:.2f} ms with a filled one; loading the program {found['load_ms']:.2f} ms", flush=True)
    return {"program": name, "batch": batch, "length": length, "phasor": found, "rows": rows}


# -- the command -------------------------------------------------------------------------------------------------------


def check():
    """All forms of all programs agree, on the CPU."""
    fine = True
    for name, program in PROGRAMS.items():
        inputs = program["inputs"](2, 5, "cpu")
        worst = disagreement(program["real"](*inputs), program["complex"](*inputs))
        print(f"{name}: {'real and complex form agree' if worst <= 0 else f'DIFFER by {worst:g} beyond rounding'}")
        fine = fine and worst <= 0
    return 0 if fine else 1


def sizes_read(text):
    try:
        return [tuple(int(number) for number in size.split("x")) for size in text.split(",")]
    except ValueError:
        sys.exit(f"peers.py: --sizes {text}: expected BATCHxLENGTH, such as 1x1,4x8192")


def peers_read(text, quick):
    names = [*VARIANTS, "others"]
    peers = text.split(",") if text else [name for name in names if not (quick and name == "complex-dynamic")]
    for peer in peers:
        if peer not in names and peer != "none":
            sys.exit(f"peers.py: no peer {peer}; there are {', '.join(names)}, and none")
    return peers


def plan(options):
    """What is run: (program, batch, length)."""
    if options.acceptance and not options.programs and not options.sizes:
        return acceptance.PLAN
    names = options.programs.split(",") if options.programs else list(PROGRAMS)
    for name in names:
        if name not in PROGRAMS:
            sys.exit(f"peers.py: no program {name}; there are {', '.join(PROGRAMS)}")
    sizes = sizes_read(options.sizes) if options.sizes else [(1, 1), (1, 4096), (4, 8192), (8, 16384)]
    if options.quick and not options.sizes:
        small = [name for name in names if name in ("rope_table_bf16", "rope_bf16")]
        return [(name, 1, 1) for name in small] + [(name, 4, 8192) for name in names]
    return [(name, *size) for name in names for size in sizes]


def options_read():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--phasor", default="build/release/phasor", help="the command")
    parser.add_argument("--cases", default="tests/cases", help="the folder with bench_*/plain.pt2")
    parser.add_argument("--programs", help="some of " + ",".join(PROGRAMS))
    parser.add_argument("--sizes", help="BATCHxLENGTH,... (default: 1x1,1x4096,4x8192,8x16384)")
    parser.add_argument("--peers", help="some of " + ",".join([*VARIANTS, "others"]) + ", or none (default: all)")
    parser.add_argument("--acceptance", action="store_true",
                        help="the programs, sizes and peers whose figures have a limit, and which limits are reached")
    parser.add_argument("--quick", action="store_true", help="4x8192, and 1x1 for two programs; one form of torch.compile less")
    parser.add_argument("--json", metavar="FILE", help="write all figures there too")
    parser.add_argument("--check", action="store_true", help="only whether all forms agree, on the CPU")
    options = parser.parse_args()
    options.peers = peers_read(options.peers or ("real-static,eager" if options.acceptance else None), options.quick)
    return options


def main():
    options = options_read()
    if torch is None:
        print("PyTorch is not installed: Phasor alone")
    elif options.check:
        return check()
    elif not gpu_found():
        print("PyTorch sees no GPU: Phasor alone")
    else:
        print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    if torch is not None:
        torch.set_grad_enabled(False)
    results = []
    with tempfile.TemporaryDirectory() as cache:
        for name, batch, length in plan(options):
            results.append(program_compare(name, batch, length, options, cache))
    reached = not options.acceptance or acceptance.judge(results)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(results, out, indent=1)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
