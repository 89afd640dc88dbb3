"""view_programs.py - random programs of bases, views, copies and writes in place, compared with eager PyTorch.

    python3 view_programs.py --phasor build/dev/phasor --stand-in build/dev/tests --count 200
        ->  each program exported in both forms, run on the CPU device and on the stand-in driver; values, shapes and
            strides of outputs are compared, what differs is printed and kept under --keep; exit 1 then
    python3 view_programs.py --write tests/cases/views_ --seeds 3,17      ->  these programs as cases, and those of NAMED

A program keeps some tensors: inputs, a buffer, and what it makes of them. Each step makes a view, something that may copy
or may not (contiguous, reshape, flatten), something computed, or writes into one of them. At the end it returns some of
them. Needs torch and safetensors.
"""
import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

import torch

from case_files import archive_write, case_write, cloned, packed
from safetensors.torch import save_file

# -- steps: text of Python over t (a kept tensor), u (another of its shape), what depends on their sizes drawn now --------


def axes_of(r, t):
    return r.sample(range(t.dim()), 2)


def view_step(r, t):
    d = r.randrange(t.dim())
    a, b = axes_of(r, t) if t.dim() > 1 else (0, 0)
    size = t.shape[d]
    choices = [
        f"t.transpose({a}, {b})",
        f"t.narrow({d}, 0, {max(1, size - 1)})",
        f"t[{'...' if d == 0 else '..., '}{'' if d == 0 else '::2'}]" if d else "t[::2]",
        f"t.unsqueeze({d})" if t.dim() < 5 else "t",
        f"t.select({d}, {r.randrange(size)})" if t.dim() > 1 else "t",
        f"t.permute({r.sample(range(t.dim()), t.dim())})",
        f"t.squeeze({d})" if t.dim() > 1 else "t",
        "t.detach()",
        "t.to(t.dtype)",
        f"t.diagonal(0, {a}, {b})" if t.dim() > 1 else "t",
        f"t.split({max(1, size // 2)}, {d})[0]",
        f"t.expand_as(t)",
        f"t.unfold({d}, {max(1, size // 2)}, {max(1, size // 2)})" if t.dim() < 4 else "t",
    ]
    if t.is_complex():
        choices += ["t.real", "t.imag", "torch.view_as_real(t)", "t.conj().resolve_conj()"]
    elif t.shape[-1] == 2 and t.stride(-1) == 1 and all(s % 2 == 0 for s in t.stride()[:-1]) and t.storage_offset() % 2 == 0:
        choices += ["torch.view_as_complex(t)"] * 4
    return r.choice(choices)


def fork_step(r, t):
    d = r.randrange(t.dim())
    count = t.numel()
    factors = [f for f in (2, 3, 4) if count % f == 0]
    shape = [count // factors[0], factors[0]] if factors and r.random() < 0.5 else [count]
    return r.choice(
        ["t.contiguous()", "t.contiguous()", f"t.reshape({shape})", "t.flatten()", f"t.flatten({d})", "t.ravel()", f"t.reshape({list(t.shape)})",
         f"t.reshape_as(t)", f"t.reshape(-1, {t.shape[-1]})"]
    )


def make_step(r, t):
    d = r.randrange(t.dim())
    size = t.shape[d]
    index = [r.randrange(size) for _ in range(r.randint(1, 3))]
    choices = [
        "t * 1.5", "2.0 - t", "t * u", "u + t", "t.clone()", f"t.flip({d})", f"torch.cat([t, t], {d})", f"t.sum({d}, keepdim=True)",
        f"t.index_select({d}, torch.tensor({index}))", f"t[{':, ' * d}torch.tensor({index})]", f"t.index_fill({d}, torch.tensor({index}), 1.0)",
        f"torch.addcmul(t, u, t)", f"torch.slice_scatter(t, u.narrow({d}, 0, 1), {d}, 0, 1)", "t.roll(1, 0)", "t * torch.tensor(0.5)",
        f"torch.diag_embed(t)" if t.dim() < 4 else "-t", f"t.index_put((torch.tensor({[i % t.shape[0] for i in index]}),), t.new_ones(()))",
        f"torch.where(t.abs() > 0.5, t, u)", f"torch.zeros_like(t)", f"t.cumsum({d})", f"torch.stack([t, u], {d})" if t.dim() < 5 else "t + 1.0",
        f"t.sum({d})" if t.dim() > 1 else "t + 1.0", f"t.repeat({[2] + [1] * (t.dim() - 1)})", "torch.conj_physical(t)", "t.expand(2, *t.shape).clone()" if t.dim() < 5 else "t * 3.0",
        "t + t.select(-1, 0).unsqueeze(-1)", "t.clone().zero_()", "t.abs()", "t.exp()", "torch.tril(t)" if t.dim() > 1 else "t.sin()", "t.pow(2)",
    ]
    return r.choice(choices)


def write_step(r, t):
    d = r.randrange(t.dim())
    index = [r.randrange(t.shape[d]) for _ in range(2)]
    return r.choice(
        ["t.mul_(2)", "t.add_(u)", "t.copy_(u)", "t.neg_()", "t.add_(1.0)", f"t.narrow({d}, 0, 1).mul_(3)", "t.zero_()", "t.fill_(0.5)",
         f"t.select({d}, 0).copy_(u.select({d}, 0) * 2)" if t.dim() > 1 else "t.mul_(-1)", f"t.index_fill_({d}, torch.tensor([{index[0]}]), 2.0)",
         "t.mul_(u)", "t.copy_(u * 0.5)"]
    )


# -- programs ----------------------------------------------------------------------------------------------------------


def is_writable(t):
    """No element twice."""
    if any(stride == 0 and size > 1 for size, stride in zip(t.shape, t.stride())):
        return False
    places = torch.arange(t.untyped_storage().nbytes() // t.element_size())
    return torch.as_strided(places, t.shape, t.stride(), t.storage_offset()).unique().numel() == t.numel()


def inputs_draw(r):
    generator = torch.Generator().manual_seed(r.randrange(1 << 30))
    sets = []
    for _ in range(2):
        shape = [r.choice([1, 2, 3, 4]) for _ in range(r.randint(1, 3))] + [r.choice([2, 3, 4])]
        dtype = r.choice([torch.complex64, torch.float32, torch.float32])
        sets.append(torch.randn(shape, dtype=dtype, generator=generator))
    return tuple(sets)


def program_draw(seed):
    """Steps that eager runs, one after another, on tensors in a list k."""
    r = random.Random(seed)
    inputs = inputs_draw(r)
    kept, lines = [t.clone() for t in inputs], []
    attempts = 0
    while len(lines) < 9 and attempts < 60:
        attempts += 1
        at = len(kept) - 1 - int(abs(r.gauss(0, 2))) % len(kept) if r.random() < 0.7 else r.randrange(len(kept))
        t = kept[at]
        if t.dim() == 0 or t.numel() == 0 or t.numel() > 400:
            continue
        alike = [i for i, other in enumerate(kept) if other.shape == t.shape and other.dtype == t.dtype]
        second = r.choice(alike)
        kind = r.choices([view_step, fork_step, make_step, write_step], [4, 3, 3, 4])[0]
        text = kind(r, t)
        if kind is write_step and not is_writable(t):
            continue
        shares = kept[second].untyped_storage().data_ptr() == t.untyped_storage().data_ptr()
        if kind is write_step and shares and re.search(r"\bu\b", text):
            continue
        before = [k.clone() for k in kept]
        try:
            result = eval(text, {"torch": torch, "t": t, "u": kept[second]})
        except Exception:
            for old, k in zip(before, kept):
                if not torch.equal(old, k) and is_writable(k):
                    k.copy_(old)
            continue
        finite = all(torch.isfinite(torch.view_as_real(k) if k.is_complex() else k).all() and (k.abs().max() < 1e3 if k.numel() else True) for k in [*kept, result])
        if not finite:
            return program_draw(seed + 100003)
        lines.append((text, at, second, kind is not write_step))
        if kind is not write_step:
            kept.append(result)
    returned = sorted(r.sample(range(len(kept)), min(len(kept), 4)))
    return inputs, lines, returned


def source_of(lines, returned):
    body = ["def forward(self, k0, k1):"]
    count = 2
    for text, at, second, makes in lines:
        code = eval_names(text, f"k{at}", f"k{second}")
        body.append(f"    k{count} = {code}" if makes else f"    {code}")
        count += makes
    body.append(f"    return ({', '.join(f'k{i}' for i in returned)},)")
    return "\n".join(body)


def eval_names(text, t, u):
    return re.sub(r"\bu\b", u, re.sub(r"\bt\b", t, text))


def module_make(source):
    space = {"torch": torch}
    exec(source, space)
    return type("Views", (torch.nn.Module,), {"forward": space["forward"]})


# -- programs whose copies depend on the sizes and strides of a call -----------------------------------------------------


def dynamic(x):
    """contiguous() copies unless the length is 1, and what is written later tells."""
    y = x * 2
    k = y.transpose(1, 2).contiguous()
    k.mul_(3)
    return y, k


def dead(x):
    """The same, and nobody can tell."""
    y = x * 2
    k = y.transpose(1, 2).contiguous()
    k.mul_(3)
    return (k,)


def callers(x):
    """flatten() shows x where the caller gives it row-major."""
    k = x.flatten()
    k.mul_(2)
    return (x + 1,)


LENGTH = torch.export.Dim("s", min=1, max=64)
NAMED = {
    "dynamic": (dynamic, [[2, 5, 8], [2, 3, 8]], ({1: LENGTH},)),
    "dead": (dead, [[2, 5, 8], [2, 3, 8], [2, 1, 8]], ({1: LENGTH},)),
    "callers": (callers, [[4, 6]], None),
}


def named_write(prefix):
    generator = torch.Generator().manual_seed(5)
    for name, (program, shapes, dims) in NAMED.items():
        case_write(prefix + name, program, [(torch.randn(shape, generator=generator),) for shape in shapes], dims)


# -- running -----------------------------------------------------------------------------------------------------------


def run(args, form, folder, device):
    environment = dict(os.environ)
    if device == "cuda":
        environment["PHASOR_DRIVER"] = f"{args.stand_in}/libphasor_stand_in_driver.so"
        environment["PHASOR_NVRTC"] = f"{args.stand_in}/libphasor_stand_in_nvrtc.so"
    command = [args.phasor, "run", f"{folder}/{form}.pt2", "--inputs", f"{folder}/inputs_0.safetensors", "--expect", f"{folder}/outputs_0.safetensors",
               "--device", device, "--json", "--cache", ":memory:"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def strides_differ(expected, document):
    """Where eager's strides are not the program's; those of dims of size 1 address nothing."""
    for index, (tensor, output) in enumerate(zip(expected, document["outputs"])):
        for d, size in enumerate(tensor.shape):
            if size > 1 and tensor.numel() and output["strides"][d] != tensor.stride(d):
                return f"output_{index}: strides {output['strides']}, eager's {list(tensor.stride())}"
    return None


def program_check(args, seed, folder):
    inputs, lines, returned = program_draw(seed)
    source = source_of(lines, returned)
    module = module_make(source)
    os.makedirs(folder, exist_ok=True)
    try:
        exported = torch.export.export(module().eval(), cloned(inputs))
        core = exported.run_decompositions()
    except Exception as error:
        return "not exported", f"{str(error)[:100]}", source
    archive_write(exported, f"{folder}/plain.pt2")
    archive_write(core, f"{folder}/core.pt2")
    tensors, metadata = packed(inputs, "input")
    save_file(tensors, f"{folder}/inputs_0.safetensors", metadata=metadata)
    troubles = []
    for form, program in [("plain", exported), ("core", core)]:
        eager = module()(*cloned(inputs))
        tensors, metadata = packed(eager, "output")
        save_file(tensors, f"{folder}/outputs_0.safetensors", metadata=metadata)
        try: # what this form's operators give: decompositions have strides of their own
            shown = program.module()(*cloned(inputs))
        except Exception:
            shown = eager
        for device in args.devices:
            result = run(args, form, folder, device)
            if result.returncode:
                troubles.append((f"exit {result.returncode}", f"{form} {device}: {result.stderr.strip()[:300]}"))
                continue
            different = strides_differ(shown, json.loads(result.stdout))
            if different:
                troubles.append(("strides", f"{form} {device}: {different}"))
    if not troubles:
        return "same", "", source
    return troubles[0][0], "; ".join(text for _, text in troubles), source


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--phasor", default="build/dev/phasor")
    parser.add_argument("--stand-in", default="build/dev/tests")
    parser.add_argument("--devices", default="cpu,cuda", type=lambda text: text.split(","))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--keep", default="")
    parser.add_argument("--write", default="")
    parser.add_argument("--seeds", default="", type=lambda text: [int(seed) for seed in text.split(",") if seed])
    args = parser.parse_args()
    if args.write:
        for number, seed in enumerate(args.seeds, 1):
            inputs, lines, returned = program_draw(seed)
            case_write(f"{args.write}{number:02}", module_make(source_of(lines, returned)), [inputs], None)
        named_write(args.write)
        return 0
    counts, failed = {}, False
    with tempfile.TemporaryDirectory() as scratch:
        for seed in args.seeds or range(args.first, args.first + args.count):
            folder = f"{scratch}/{seed}"
            kind, text, source = program_check(args, seed, folder)
            counts[kind] = counts.get(kind, 0) + 1
            if kind not in ("same", "not exported"):
                failed = True
                print(f"-- seed {seed}: {kind}: {text}\n{source}", flush=True)
                if args.keep:
                    shutil.copytree(folder, f"{args.keep}/{seed}", dirs_exist_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
    print(counts)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
