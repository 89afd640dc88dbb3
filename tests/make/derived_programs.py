"""derived_programs.py - random programs in which dims of inputs are expressions of symbols, compared with eager PyTorch.

    python3 derived_programs.py --phasor build/dev/phasor --stand-in build/dev/tests --count 120
        ->  each program exported in both forms, run at several sizes on the CPU device and on the stand-in driver in
            three modes; what differs is printed and kept under --keep; exit 1 then
    python3 derived_programs.py --write tests/cases/fault_derived_      ->  one small case of each kind, for the tests

Kinds: multiples (2*k), shifted ones (p + 1, 3*k - 2), several of one root, two roots, the root beside them or not; and
relations that export finds by itself: sums, products, repeats, paddings, integers, halves.
"""
import argparse
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile

import torch
from torch.export import Dim

from case_files import archive_write, case_write, cloned, module_of, packed
from safetensors.torch import save_file

AUTO = Dim.AUTO

# -- parts of programs -------------------------------------------------------------------------------------------------

MAPS = [
    lambda t: t * 1.5 + 0.25,
    lambda t: t - t.mean() if not t.is_complex() else t * 1j,
    lambda t: torch.sin(t) if not t.is_complex() else torch.conj(t),
    lambda t: t * t.abs(),
    lambda t: torch.exp(-t.abs()) + t,
    lambda t: t.flip(0),
    lambda t: t.roll(1, 0),
    lambda t: (t.to(torch.complex64) * (0.5 - 1j)).real if not t.is_complex() else t * 2,
    lambda t: torch.view_as_real(torch.polar(t.abs().float(), t.float())).sum(-1).to(t.dtype) if not t.is_complex() else t / (1 + 2j),
]

REDUCTIONS = [
    lambda t, d: t.sum(d),
    lambda t, d: t.mean(d),
    lambda t, d: t.select(d, 0) * 2,
    lambda t, d: t.select(d, -1) - t.select(d, 0),
    lambda t, d: t.prod(d) if not t.is_complex() else t.sum(d),
]


class Draw:
    """The random choices of one program."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)

    def number(self, low, high):
        return self.random.randint(low, high)

    def maps(self):
        chosen = self.random.choices(MAPS, k=self.number(1, 3))

        def apply(t):
            for function in chosen:
                t = function(t)
            return t

        return apply

    def reduction(self):
        return self.random.choice(REDUCTIONS)

    def dtype(self):
        return self.random.choice([torch.float32, torch.float32, torch.float64, torch.complex64])

    def tensor(self, dtype, *shape):
        wide = torch.complex128 if dtype.is_complex else torch.float64
        return torch.randn(shape, generator=self.generator, dtype=wide).to(dtype)

    def shuffled(self, function, make, dims):
        """The same program with its inputs in another order."""
        order = self.random.sample(range(len(dims)), len(dims))
        back = [order.index(i) for i in range(len(dims))]

        def call(*inputs):
            return function(*[inputs[i] for i in back])

        def made(**sizes):
            inputs = make(**sizes)
            return tuple(inputs[i] for i in order)

        by_count = {2: lambda a, b: call(a, b), 3: lambda a, b, c: call(a, b, c), 4: lambda a, b, c, d: call(a, b, c, d)}
        return by_count[len(dims)], made, tuple(dims[i] for i in order)


# -- kinds of programs: (program, inputs for sizes, dynamic shapes, sizes) ---------------------------------------------


def root(draw, name, least=1):
    return Dim(name, min=least, max=draw.number(24, 64))


def some_sizes(draw, least, *names, most=20):
    """Those of the example first; then the least, and others."""
    example = {name: draw.number(max(least, 3), 7) for name in names}
    return [example, {name: least for name in names}] + [{name: draw.number(least, most) for name in names} for _ in range(3)]


def multiple(draw):
    a, c, f, r, dtype = draw.number(2, 8), draw.number(1, 5), draw.maps(), draw.reduction(), draw.dtype()
    k = root(draw, "k")
    return lambda x: f(r(x.view(-1, a, c), 1)), lambda k: (draw.tensor(dtype, a * k, c),), ({0: a * k},), some_sizes(draw, 1, "k")


def shifted(draw):
    a, b, c, f, r, dtype = draw.number(1, 5), draw.number(1, 4), draw.number(1, 5), draw.maps(), draw.reduction(), draw.dtype()
    k = root(draw, "k")
    return lambda x: (f(r(x[b:].view(-1, a, c), 1)), x[:b] * 2), lambda k: (draw.tensor(dtype, a * k + b, c),), ({0: a * k + b},), some_sizes(draw, 1, "k")


def less(draw):
    a = draw.number(2, 4)
    b, f, dtype = draw.number(1, a - 1), draw.maps(), draw.dtype()
    k = root(draw, "k")
    return lambda x: (f(x), x[1:] - x[:-1]), lambda k: (draw.tensor(dtype, a * k - b),), ({0: a * k - b},), some_sizes(draw, 1, "k")


def pairs(draw):
    n, f = draw.number(1, 4), draw.maps()
    k = root(draw, "k")

    def program(x):
        z = torch.view_as_complex(x.reshape(x.shape[0], -1, 2))
        return torch.view_as_real(f(z)).flatten(1), z

    return program, lambda k: (draw.tensor(torch.float32, n, 2 * k),), ({1: 2 * k},), some_sizes(draw, 1, "k")


def rotation(draw):
    n, bf16 = draw.number(1, 4), draw.number(0, 1)
    p, k = root(draw, "p"), root(draw, "k")
    dtype = torch.bfloat16 if bf16 else torch.float32

    def program(x, f):
        z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(z * f).flatten(3).type_as(x)

    def make(p, k):
        angle = draw.tensor(torch.float32, p, 1, k)
        return draw.tensor(dtype, n, p, 3, 2 * k), torch.polar(torch.ones_like(angle), angle)

    return *draw.shuffled(program, make, ({1: p, 3: 2 * k}, {0: p, 2: k})), some_sizes(draw, 1, "p", "k")


def beside(draw):
    a, b, c, f, r, dtype = draw.number(1, 5), draw.number(1, 4), draw.number(1, 5), draw.maps(), draw.reduction(), draw.dtype()
    k = root(draw, "k")
    return *draw.shuffled(lambda x, y: f(r(x[b:].view(-1, a, c), 1) * y), lambda k: (draw.tensor(dtype, a * k + b, c), draw.tensor(dtype, k, c)),
                          ({0: a * k + b}, {0: k})), some_sizes(draw, 1, "k")


def two_of_one(draw):
    a, b, d, f, r, dtype = draw.number(2, 5), draw.number(2, 5), draw.number(1, 3), draw.maps(), draw.reduction(), draw.dtype()
    k = root(draw, "k")
    return *draw.shuffled(lambda x, y: (f(r(x.view(-1, a), 1) + y[d:].view(-1, b).sum(1)), x * 2), lambda k: (draw.tensor(dtype, a * k), draw.tensor(dtype, b * k + d)),
                          ({0: a * k}, {0: b * k + d})), some_sizes(draw, 1, "k")


def two_roots(draw):
    a, b, f, dtype = draw.number(2, 4), draw.number(2, 4), draw.maps(), draw.dtype()
    k, p = root(draw, "k"), root(draw, "p")
    return (lambda x: f(x.view(x.shape[0] // a, a, x.shape[1] // b, b).sum((1, 3))), lambda k, p: (draw.tensor(dtype, a * k, b * p),), ({0: a * k, 1: b * p},),
            some_sizes(draw, 1, "k", "p"))


def joined_multiples(draw):
    f, dtype = draw.maps(), draw.dtype()
    k, p = root(draw, "k"), root(draw, "p", 2)
    return *draw.shuffled(lambda x, y, z: f(torch.cat([x, y]) * z), lambda k, p: tuple(draw.tensor(dtype, m * k, p) for m in (2, 1, 3)),
                          ({0: 2 * k, 1: p}, {0: k, 1: p}, {0: 3 * k, 1: p})), some_sizes(draw, 2, "k", "p")


def sums(draw):
    m, b, f, dtype = draw.number(1, 3), draw.number(0, 2), draw.maps(), draw.dtype()
    return *draw.shuffled(lambda x, y, z: f(torch.cat([x] * m + [y]) + z[b:]), lambda s, t: (draw.tensor(dtype, s), draw.tensor(dtype, t), draw.tensor(dtype, m * s + t + b)),
                          ({0: AUTO}, {0: AUTO}, {0: AUTO})), some_sizes(draw, 4, "s", "t")


def two_sums(draw):
    f, g, dtype = draw.maps(), draw.maps(), draw.dtype()
    return *draw.shuffled(lambda x, y, z, w: (f(torch.cat([x, y]) + z), g(torch.cat([y, x, x]) * w)),
                          lambda s, t: (draw.tensor(dtype, s), draw.tensor(dtype, t), draw.tensor(dtype, s + t), draw.tensor(dtype, 2 * s + t)),
                          ({0: AUTO}, {0: AUTO}, {0: AUTO}, {0: AUTO})), some_sizes(draw, 4, "s", "t")


def products(draw):
    f, dtype = draw.maps(), draw.dtype()
    return *draw.shuffled(lambda x, y: f(x.flatten() + y), lambda s, t: (draw.tensor(dtype, s, t), draw.tensor(dtype, s * t)), ({0: AUTO, 1: AUTO}, {0: AUTO})), some_sizes(draw, 4, "s", "t")


def repeats(draw):
    m, f, dtype = draw.number(2, 5), draw.maps(), draw.dtype()
    return *draw.shuffled(lambda x, y: f(x.repeat(m) + y), lambda s: (draw.tensor(dtype, s), draw.tensor(dtype, m * s)), ({0: AUTO}, {0: AUTO})), some_sizes(draw, 4, "s")


def paddings(draw):
    a, b, f = draw.number(0, 3), draw.number(1, 3), draw.maps()
    return *draw.shuffled(lambda x, y: f(torch.nn.functional.pad(x, (a, b)) + y), lambda s: (draw.tensor(torch.float32, 3, s), draw.tensor(torch.float32, 3, s + a + b)),
                          ({1: AUTO}, {1: AUTO})), some_sizes(draw, 4, "s")


def integers(draw):
    f, dtype, a = draw.maps(), draw.dtype(), draw.number(1, 3)

    def program(x, n):
        torch._check(n + a == x.shape[0])
        return f(x[a:] * n)

    return program, lambda s: (draw.tensor(dtype, s + a), s), ({0: AUTO}, AUTO), some_sizes(draw, 4, "s")


def integer_multiples(draw):
    f, dtype, m = draw.maps(), draw.dtype(), draw.number(2, 4)

    def program(n, x):
        torch._check(n == m * x.shape[0])
        return f(x * n)

    return program, lambda s: (m * s, draw.tensor(dtype, s)), (AUTO, {0: AUTO}), some_sizes(draw, 4, "s")


def halves(draw):
    f, dtype = draw.maps(), draw.dtype()
    way = draw.random.choice([lambda x: x[::2], lambda x: x[: (x.shape[0] + 1) // 2], lambda x: x.chunk(2)[0]])
    return *draw.shuffled(lambda x, y: f(way(x) + y), lambda s: (draw.tensor(dtype, s), draw.tensor(dtype, (s + 1) // 2)), ({0: AUTO}, {0: AUTO})), some_sizes(draw, 6, "s")


KINDS = [multiple, shifted, less, pairs, rotation, beside, two_of_one, two_roots, joined_multiples, sums, two_sums, products, repeats, paddings, integers, integer_multiples, halves]

# -- running -----------------------------------------------------------------------------------------------------------


def program_write(folder, program, sets, dims):
    """Both forms, and the sets that the exported program takes; how many these are."""
    module = module_of(program).eval()
    exported = torch.export.export(module, cloned(sets[0]), dynamic_shapes=dims)
    archive_write(exported, f"{folder}/plain.pt2")
    archive_write(exported.run_decompositions(), f"{folder}/core.pt2")
    count = 0
    for inputs in sets:
        try:
            exported.module()(*cloned(inputs))
        except (RuntimeError, AssertionError):
            continue
        tensors, metadata = packed(inputs, "input")
        save_file(tensors, f"{folder}/inputs_{count}.safetensors", metadata=metadata)
        tensors, metadata = packed(module(*cloned(inputs)), "output")
        save_file(tensors, f"{folder}/outputs_{count}.safetensors", metadata=metadata)
        count += 1
    return count


def runs_of(options, folder, count):
    """The commands of one program: every set on the CPU in both forms, and on the stand-in driver in each mode."""
    environment = dict(os.environ, PHASOR_CACHE_DIR=f"{folder}/cache", PHASOR_DRIVER=f"{options.stand_in}/libphasor_stand_in_driver.so",
                       PHASOR_NVRTC=f"{options.stand_in}/libphasor_stand_in_nvrtc.so")
    for form, index in itertools.product(("plain", "core"), range(count)):
        command = [options.phasor, "run", f"{folder}/{form}.pt2", "--inputs", f"{folder}/inputs_{index}.safetensors", "--expect", f"{folder}/outputs_{index}.safetensors"]
        yield command + ["--device", "cpu"], environment
        for mode in ("generic", "auto", "exact"):
            if options.stand_in and (mode != "exact" or form == "plain"):
                yield command + ["--device", "cuda", "--mode", mode], environment


def compare(options):
    differences = programs = runs = refused = 0
    seed = options.seed
    while programs < options.count:
        kind = KINDS[seed % len(KINDS)]
        draw = Draw(seed)
        program, make, dims, sizes = kind(draw)
        folder = tempfile.mkdtemp(prefix=f"derived_{kind.__name__}_{seed}_")
        seed += 1
        try:
            count = program_write(folder, program, [make(**one) for one in sizes], dims)
        except Exception as error:  # what export refuses is no program
            print(f"{kind.__name__} {seed - 1}: not exported: {str(error).splitlines()[0][:150]}")
            refused += 1
            shutil.rmtree(folder)
            continue
        programs += 1
        failed = False
        for command, environment in runs_of(options, folder, count):
            result = subprocess.run(command, env=environment, capture_output=True, text=True)
            runs += 1
            if result.returncode != 0:
                failed = True
                print(" ".join(command), result.stdout, result.stderr, sep="\n")
        differences += failed
        if not failed:
            shutil.rmtree(folder)
    print(f"{programs} programs, {runs} runs, {differences} programs differ; {refused} drawn that export does not take")
    return 1 if differences else 0


def write(prefix):
    """One of each kind, with its first two further sizes."""
    for seed, kind in enumerate(KINDS):
        program, make, dims, sizes = kind(Draw(1000 + seed))
        case_write(f"{prefix}{kind.__name__}", program, [make(**one) for one in sizes[:3]], dims)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--phasor", default="build/dev/phasor")
    parser.add_argument("--stand-in", default="")
    parser.add_argument("--count", type=int, default=102)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write")
    options = parser.parse_args()
    if options.write:
        return write(options.write)
    return compare(options)


if __name__ == "__main__":
    sys.exit(main())
