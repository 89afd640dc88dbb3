#!/usr/bin/env python3
"""series.py - a series of random lengths, as a server gets them: Phasor's modes beside PyTorch, in one table.

    tools/bench/compare.sh --series --json series.json

    bench_rope_bf16  q.1 in 1..4096: 2000 calls, 886 lengths    (microseconds of host time, from call to return)
                                    compiled  first call   first time: n    p50     p99     max   repeated: n ...
      Phasor exact, prepared               0       310.2             31    9.91   12.40   13.00          1024 ...
      Phasor auto                          2     14210.0            885   55.50   84.40  120.40          1114 ...
      torch.compile, complex, dynamic      3   2100000.0            ...

1. The lengths are drawn as `phasor bench --lengths NAME=uniform:...` draws them, and written to a file, twice over, so that
   each is repeated. All rows read that file; only `exact, prepared` has some of its lengths, compiled beforehand.
2. The rules are those of `phasor bench --lengths`: one call at a time, the stream waited for after every 32, outside of
   what is timed; inputs lie in one place that is large enough for all. Phasor writes to the caller's buffers, PyTorch to
   what it allocates.
3. `compiled`: Phasor's kernels, PyTorch's graphs. The first call is on a line of its own and in no other column.
4. PyTorch stops at --torch-seconds, shared by its rows; a row says how many calls it made.
"""

import argparse
import importlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
import warnings

import acceptance
import peers
from peers import gpu_found, torch

CHUNK = 32
SLOW_MICROSECONDS = 2000
FIRST_TIME_US, REPEATED_RATIO, REPEATED_US, GENERIC_KERNELS = 100, 1.2, 1, 4
WORD = (1 << 64) - 1

# -- lengths -----------------------------------------------------------------------------------------------------------


def random_bits(state):
    """splitmix64, as phasor bench has it: the next state, 64 bits."""
    state = (state + 0x9E3779B97F4A7C15) & WORD
    z = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & WORD
    return state, z ^ z >> 31


def lengths_draw(options):
    """One pass of random lengths, then the same once more."""
    state, lengths = options.seed, []
    for _ in range(options.count):
        state, bits = random_bits(state)
        lengths.append(options.least + (bits >> 1) % (options.most - options.least + 1))
    return 2 * lengths


def lengths_write(path, name, lengths):
    with open(path, "w", encoding="utf-8") as out:
        out.writelines(f"{name}={length}\n" for length in lengths)


def lengths_read(path):
    with open(path, encoding="utf-8") as lines:
        return [int(line.split("=")[1]) for line in lines]


# -- Phasor ------------------------------------------------------------------------------------------------------------


def phasor_run(options, command, *more):
    words = [options.phasor, command, options.program, "--dim", f"{options.batch_name}={options.batch}", "--json", *more]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PHASOR_CACHE")}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"series.py: {' '.join(words)}: exit code {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def phasor_series(options, title, mode, path, cache):
    found = phasor_run(options, "bench", "--lengths", path, "--mode", mode, "--cache", cache, "--device", options.device)
    return {"name": title, "calls": found["calls"], "compiled": found["compiled"], "first_call_us": found["first_call_us"],
            "first_time_us": found["first_time_us"], "repeated_us": found["repeated_us"], "over_2_ms": found["over_2_ms"]}


def phasor_prepared(options, lengths, work):
    """Some of the lengths in mode exact, compiled beforehand: each once, then all of them again and again."""
    different = sorted(set(lengths))
    chosen = different[::max(1, len(different) // options.prepared)][:options.prepared]
    once, often, cache = (os.path.join(work, name) for name in ("once", "often", "cache-exact"))
    lengths_write(once, options.name, chosen)
    lengths_write(often, options.name, chosen * (1 + CHUNK))
    phasor_run(options, "prewarm", "--lengths", once, "--mode", "exact", "--cache", cache)
    row = phasor_series(options, "Phasor exact, prepared", "exact", often, cache)
    row["note"] = f"{len(chosen)} lengths from the cache, again and again"
    return row


def bare_launches(options, lengths):
    """What a launch costs the host without Phasor, at one length: what no row can be below."""
    middle = sorted(lengths)[len(lengths) // 2]
    found = phasor_run(options, "bench", "--dim", f"{options.name}={middle}", "--cache", ":memory:", "--device", options.device)
    launches = found["launch_us"]
    return {"name": "bare launches", "calls": launches["count"], "compiled": 0, "first_time_us": None,
            "repeated_us": launches, "over_2_ms": 0, "note": f"of the kernels of length {middle}, by the driver alone"}


def phasor_rows(options, path, work):
    yield bare_launches(options, lengths_read(path))
    yield phasor_prepared(options, lengths_read(path), work)
    for mode in ("auto", "generic"):
        yield phasor_series(options, f"Phasor {mode}", mode, path, os.path.join(work, f"cache-{mode}"))


# -- PyTorch -----------------------------------------------------------------------------------------------------------

# Title, form, `dynamic` of torch.compile. None is what it does without an argument: the first length static, from the
# second on dynamic. Static ones come last: they compile most often and get the time that the others left.
ROWS = [("PyTorch eager, complex", "complex", "eager"), ("PyTorch eager, real", "real", "eager")]
ROWS += [(f"torch.compile, {form}, {title}", form, dynamic)
         for title, dynamic in (("dynamic", True), ("default", None), ("static", False)) for form in ("complex", "real")]


def percentile(ordered, percent):
    return ordered[max(0, (len(ordered) * percent + 99) // 100 - 1)]


def times(samples):
    if not samples:
        return None
    ordered = sorted(samples)
    return {"count": len(ordered), "p50": percentile(ordered, 50), "p90": percentile(ordered, 90),
            "p99": percentile(ordered, 99), "max": ordered[-1]}


def graphs_compiled():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def recompile_limit():
    config = torch._dynamo.config
    return config.recompile_limit if hasattr(config, "recompile_limit") else config.cache_size_limit


def inputs_for(options, lengths):
    """The inputs of each length: views of what is large enough for all."""
    longest = peers.PROGRAMS["rope_bf16"]["inputs"](options.batch, max(lengths), peers.DEVICE)

    def cut(tensor, length):
        shape = (options.batch, length, *tensor.shape[2:])
        return tensor.flatten()[:options.batch * length * tensor.shape[2] * tensor.shape[3]].view(shape)

    q, k, rates = longest
    return {length: (cut(q, length), cut(k, length), rates) for length in set(lengths)}


def calls_run(call, lengths, inputs, deadline):
    """Microseconds of each call until the deadline, and after which call the last graph had been compiled."""
    samples, kept, last = [], None, 0
    for at, length in enumerate(lengths):
        now, graphs = inputs[length], graphs_compiled()
        before = time.perf_counter_ns()
        outputs = call(*now)
        samples.append((time.perf_counter_ns() - before) / 1e3)
        kept = outputs  # what was there is freed outside of what is timed
        if graphs_compiled() > graphs:
            last = at + 1
        if at % CHUNK == 0:
            torch.cuda.synchronize()
        if time.perf_counter() > deadline:
            break
    torch.cuda.synchronize()
    del kept
    return samples, last


def torch_row(title, call, lengths, inputs, deadline):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    with torch._inductor.utils.fresh_cache():  # no row finds what another compiled
        samples, last = calls_run(call, lengths, inputs, deadline)
    seen, first_time, repeated = {lengths[0]}, [], []
    for length, sample in zip(lengths[1:], samples[1:]):
        (repeated if length in seen else first_time).append(sample)
        seen.add(length)
    row = {"name": title, "calls": len(samples), "compiled": graphs_compiled(), "first_call_us": samples[0],
           "first_time_us": times(first_time), "repeated_us": times(repeated),
           "over_2_ms": sum(sample > SLOW_MICROSECONDS for sample in samples[1:])}
    notes = [f"{len(samples)} of {len(lengths)} calls: the time was up"] if len(samples) < len(lengths) else []
    if row["compiled"] >= recompile_limit():
        notes.append(f"gave up after {row['compiled']} graphs (call {last}): other lengths run eagerly")
    return {**row, "note": "; ".join(notes)}


def inductor_start(inputs):
    """Inductor has compiled something before the first row: no first call pays for loading it."""
    torch.compile(lambda x: x + 1)(inputs)
    torch.cuda.synchronize()


def torch_rows(options, lengths):
    importlib.import_module("torch._inductor.utils")
    torch.set_grad_enabled(False)
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
    program, inputs = peers.PROGRAMS["rope_bf16"], inputs_for(options, lengths)
    inductor_start(inputs[lengths[0]][2])
    end = time.perf_counter() + options.torch_seconds
    for at, (title, form, dynamic) in enumerate(ROWS):
        now = time.perf_counter()
        call = program[form] if dynamic == "eager" else torch.compile(program[form], dynamic=dynamic)
        try:
            yield torch_row(title, call, lengths, inputs, now + (end - now) / (len(ROWS) - at))
        except Exception as error:  # a peer that cannot run this is a row that says so
            yield {"name": title, "note": f"failed: {type(error).__name__}: {str(error)[:60]}"}


# -- the table ---------------------------------------------------------------------------------------------------------


def head_print(options, lengths):
    name = os.path.basename(os.path.dirname(options.program))
    print(f"{name}  {options.name} in {options.least}..{options.most}: {len(lengths)} calls, {len(set(lengths))} lengths"
          "    (microseconds of host time, from call to return)")
    print(f"  {'':<34}{'compiled':>8}{'first call':>12}{'first time: n':>15}{'p50':>12}{'p99':>13}{'max':>13}"
          f"{'repeated: n':>13}{'p50':>11}{'p99':>13}{'> 2 ms':>8}", flush=True)


def row_print(row):
    def cells(figures, *names):
        return [f"{figures[name]:.2f}" if figures else "" for name in names]

    if "compiled" not in row:
        print(f"  {row['name']:<34}{row['note']}", flush=True)
        return
    first, again = row["first_time_us"], row["repeated_us"]
    words = [(row["compiled"], 8), (f"{row['first_call_us']:.1f}" if "first_call_us" in row else "", 12), (first["count"] if first else "", 15),
             *zip(cells(first, "p50", "p99", "max"), (12, 13, 13)), (again["count"] if again else "", 13),
             *zip(cells(again, "p50", "p99"), (11, 13)), (row["over_2_ms"], 8)]
    line = "".join(f"{word:>{width}}" for word, width in words)
    print(f"  {row['name']:<34}{line}  {row.get('note', '')}".rstrip(), flush=True)


def judge(rows):
    """Prints what has a limit; whether nothing was missed."""
    by_name = {row["name"]: row for row in rows}
    exact, auto, generic = (by_name[f"Phasor {name}"] for name in ("exact, prepared", "auto", "generic"))

    def figure(row, part, name):
        return row[part][name] if row[part] else None

    middle, bare = figure(exact, "repeated_us", "p50"), by_name["bare launches"]["repeated_us"]
    print()
    verdicts = [
        acceptance.line("auto: us of first-time lengths, p99", figure(auto, "first_time_us", "p99"), FIRST_TIME_US,
                        acceptance.most, "{:.2f}"),
        acceptance.line("auto: calls over 2 ms after the first", auto["over_2_ms"], 0, acceptance.most, "{:d}"),
        acceptance.line(f"auto: us of repeated lengths, p99 (limit: {REPEATED_RATIO} x exact's median + {REPEATED_US})",
                        figure(auto, "repeated_us", "p99"), middle and REPEATED_RATIO * middle + REPEATED_US,
                        acceptance.most, "{:.2f}"),
        acceptance.line("generic: kernels compiled", generic["compiled"], GENERIC_KERNELS, acceptance.most, "{:d}"),
    ]
    print(f"        beside them: bare launches p50 {bare['p50']:.2f}, p99 {bare['p99']:.2f}; "
          f"exact p99 {figure(exact, 'repeated_us', 'p99') or 0:.2f}")
    return False not in verdicts


# -- the command -------------------------------------------------------------------------------------------------------


def options_read():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--phasor", default="build/release/phasor", help="the command")
    parser.add_argument("--cases", default="tests/cases", help="the folder with bench_rope_bf16/plain.pt2")
    parser.add_argument("--device", default="cuda", help="where Phasor runs")
    parser.add_argument("--count", type=int, default=1000, help="random lengths of a pass; there are two passes")
    parser.add_argument("--least", type=int, default=1, help="the smallest length")
    parser.add_argument("--most", type=int, default=4096, help="the largest length")
    parser.add_argument("--seed", type=int, default=0, help="of the lengths")
    parser.add_argument("--batch", type=int, default=2, help="of all calls (default: 2, the example's)")
    parser.add_argument("--prepared", type=int, default=32, help="how many lengths are compiled beforehand for mode exact")
    parser.add_argument("--torch-seconds", type=float, default=120, help="for all of PyTorch's rows; 0: none")
    parser.add_argument("--json", metavar="FILE", help="write all figures there too")
    options = parser.parse_args()
    if options.count < 1 or not 1 <= options.least <= options.most:
        sys.exit("series.py: --count is at least 1, and --least at least 1 and at most --most")
    options.name, options.batch_name = "q.1", "q.0"
    options.program = os.path.join(options.cases, "bench_rope_bf16", "plain.pt2")
    return options


def rows_measure(options, path, work):
    yield from phasor_rows(options, path, work)
    if not gpu_found():
        print("  PyTorch is not installed, or sees no GPU: Phasor alone")
    elif options.torch_seconds > 0:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield from torch_rows(options, lengths_read(path))


def main():
    options, rows = options_read(), []
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "lengths")
        lengths = lengths_draw(options)
        lengths_write(path, options.name, lengths)
        head_print(options, lengths)
        for row in rows_measure(options, path, work):
            row_print(row)
            rows.append(row)
    reached = judge(rows)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump({"lengths": lengths, "rows": rows}, out, indent=1)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
