"""report_programs.py - programs that other tools got wrong, with the values that are right.

    python3 report_programs.py tests/cases     ->  tests/cases/report_*, as tests/cases/README.md says

Each function states the right values next to the program: `right` stops the script when eager PyTorch does not give them.
tests/test_reports.c holds them too, and what each case is about; tests/README.md says which report is tested where.
"""
import sys

import torch
import torch.nn.functional as F
from torch.export import Dim

from case_files import case_write

INF, NAN = float("inf"), float("nan")
Z = torch.tensor([1 + 2j, 3 - 4j])
Z2 = torch.tensor([[1 + 2j, 3 - 4j], [5 + 6j, -7j]])
R = torch.tensor([10.0, 20.0])
CASES = []


def case(*inputs, right=(), dims=None, more=()):
    """The program with its inputs; `right` are the first outputs."""

    def keep(program):
        CASES.append((program, inputs, right, dims, more))
        return program

    return keep


# -- values that rewriting passes get wrong (L1 to L14) ----------------------------------------------------------------


@case(Z, Z2, R, torch.tensor([True, False]), right=(
    [11 + 2j, 23 - 4j], [-7 + 16j, -28 - 21j], [[-7j, 1 + 2j], [3 - 4j, 5 + 6j]], [1 + 2j, 1], [1 + 2j, 3 - 4j, 10, 20],
    [[1 + 2j, 10], [3 - 4j, 20]], [1 + 3j, 3 - 3j], [-4 + 2j, 8 + 6j], [10j, 20j], [2 - 4j, 2.4 + 3.2j]))
class report_latent_sums(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.tensor([1 + 1j, 2 - 1j]))

    def forward(self, z, z2, r, m):
        a = z + r, z2.prod(0), torch.roll(z2, 1), torch.where(m, z, 1), torch.cat([z, r]), torch.stack([z, r.to(z.dtype)], 1)
        return *a, z + 1j, z * 2j, r * 1j, r / z, self.table * r, z2.sum(), z2.sum(dim=None), torch.add(z, z * 2, alpha=2)


@case(torch.tensor([1e20 + 1e20j, 100 + 1j, 1e30 + 1e30j, -3 + 4j]), right=())
def report_latent_extremes(z):
    return z.abs(), z.log(), z.sqrt(), z.tanh(), z / z, z**2, z[3] ** 3, torch.add(z[3], z[3], alpha=2)


# -- outputs that are one tensor (A) -----------------------------------------------------------------------------------


@case(torch.arange(12.0).reshape(3, 4).half(), torch.tensor([1 + 2j, 3 - 4j]))
def report_outputs(x, z):
    s, y, w = x * x, x + 1, z * 1j
    return s, s.contiguous(), y.detach(), y.detach(), y, y, y, x * 2, x * 2, x, y[1:], y.T, torch.view_as_real(w), w, w.T


@case(torch.tensor([1.0, 2.0]))
class report_counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.tensor([3, 5]))
        self.register_buffer("table", torch.tensor([1j, 2.0]))

    def forward(self, x):
        self.count.add_(1)
        self.table.mul_(1j)
        return self.count, self.table * x, self.table, torch.tensor([4.0, 2.5])


@case(torch.tensor([1j, 2.0]), torch.tensor([1.0, 2.0]))
def report_written_inputs(z, x):
    z.mul_(1j)
    x.add_(z.real)
    return z, z, torch.view_as_real(z), x[1:], z * 2


# -- arithmetic on pairs (B) -------------------------------------------------------------------------------------------


@case(torch.arange(16).reshape(1, 16) * (1 - 1j), torch.arange(5.0), right=(
    [[2, 2], [2, 2]], [5], [[2 * k * (1 - 1j) for k in range(16)]], [k * 1j for k in range(5)], [k * (1 + 1j) for k in range(5)]))
def report_pairs(z, x):
    one, c = torch.ones(2, 1, dtype=torch.complex64), torch.full((2, 2), 1, dtype=torch.complex64)
    half = torch.scalar_tensor(2.5, dtype=torch.complex64)
    a = one + c, (half + half).reshape(1), z + z, x * 1j, x * (1 + 1j), z[:, :5] * x, z.reshape(4, 4) + z.reshape(4, 4)[:, :1]
    d = z.reshape(4, 4).to(torch.complex128)
    return *a, z * 1j, d.T + d, d.mH + d, d[::2, 1::2] + d[1::2, ::2], torch.tensor(1j) * x


@case(torch.tensor([[0, 1, 2, 3]]), torch.arange(32.0).reshape(4, 8) / 16)
def report_heads(tokens, weight):
    t = torch.polar(torch.ones(4, 2), torch.outer(torch.arange(4.0), torch.tensor([1.0, 0.1])))
    x = F.embedding(tokens, weight).view(1, 4, 2, 4)
    y = torch.view_as_real(torch.view_as_complex(x.reshape(1, 4, 2, 2, 2)) * t[None, :, None]).flatten(3)
    return y.transpose(1, 2) @ y.transpose(1, 2).mT


# -- layouts (C) and conjugates (D) ------------------------------------------------------------------------------------


@case(torch.arange(8.0).reshape(2, 2, 2), torch.arange(6.0).reshape(3, 2, 1), torch.arange(2.0), torch.arange(6.0).reshape(2, 3),
      right=([[1j, 4 + 5j], [2 + 3j, 6 + 7j]], [[1j], [2 + 3j], [4 + 5j]], 1j))
def report_layouts(x, y, pair, a):
    b = torch.view_as_complex(x.transpose(0, 1)), torch.view_as_complex(y.transpose(1, 2).contiguous())
    c = torch.complex(a.T, a.T * 2)
    return *b, torch.view_as_complex(pair), (b[0] * 1j).real, c, torch.view_as_real(c), c.T, b[1] * 1.0 / 3**0.5


@case(torch.tensor([1 + 2j, 3 - 4j, 1j, 2]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([0, 2]),
      right=([2, 6, 0, 4], [[1, -2], [3, 4], [0, -1], [2, 0]]))
def report_conjugates(z, x, i):
    a = (z + z.conj()).real, torch.view_as_real(z.conj().resolve_conj()), z.conj().view(1, 1, 2, 2) * 2
    c = F.linear(torch.complex(x, torch.zeros_like(x)).conj(), torch.complex(x, x))
    return *a, c, z[i].conj().view(1, 2).expand(3, 2).reshape(6) * 1j, z.conj().imag + 1, z.conj().conj() * 1


# -- structure (E) -----------------------------------------------------------------------------------------------------


@case(torch.arange(60).reshape(5, 4, 3) * (1 + 2j), torch.tensor([[4, 0], [1, 2]]), torch.empty(0, 3, dtype=torch.complex128))
def report_structure(t, ids, none):
    a = t[ids[:, 0]], t[ids[:, 0], ids[:, 1]], t.gather(0, ids[:1, :, None].expand(1, 2, 3)), t[:, :2], t[..., -1:], t.unsqueeze(-1)
    b = torch.cat([t, t * 1j], -1), torch.stack([t, t], -1).flatten(2), t[:, ids[0] % 4, 1:], F.embedding(ids, t[:, 0])
    return *a, *b, none, none * 2, torch.view_as_real(none), t.real[:, :2].to(torch.complex64)[:, :, :2], t.reshape(-1, 2), t * 1j


# -- numbers (F) -------------------------------------------------------------------------------------------------------


@case(torch.tensor([0, -501 - 1e20j, 1e30 + 1e30j]), torch.tensor([1e-36, -501 - 1e20j, 1e30 + 1e30j]), torch.tensor([0, 2000, 131071]),
      torch.tensor([1.0, 0.5]).bfloat16(), right=([0, 1, 1], [0, 1e20, 1e30 * 2**0.5]))
def report_numbers(z, w, positions, x):
    angles = torch.outer(positions.double(), torch.tensor([1.0, 0.25], dtype=torch.float64)).float()
    table = torch.polar(torch.ones_like(angles), angles)
    y = torch.view_as_real(torch.view_as_complex(x.float().reshape(1, 2)) * table[1:, 0]).to(torch.bfloat16)
    return z / w, z.abs(), table, y, torch.polar(angles.double() * 0 + 1, angles.double()), z.to(torch.complex128) / w.to(torch.complex128)


@case(torch.tensor([complex(NAN, INF), complex(INF, NAN), 0, complex(-1, -0.0), complex(-1, 0.0)]), right=())
def report_special(z):
    zero = torch.zeros(1, dtype=torch.complex64)
    return z.abs(), zero ** (1 - 1j), z[2:].angle(), z[2:].sqrt(), zero**2, z.isnan(), z.isinf(), z[2:] / zero, z.sgn()[2:]


# -- facts (section 6) -------------------------------------------------------------------------------------------------


@case(Z, torch.tensor([1.0, 2.0], dtype=torch.float64), torch.tensor([1, -2]), torch.tensor([True, False]), torch.tensor([0.5, 2.0]).bfloat16(), R)
def report_promotion(z, d, i, b, h, r):
    wide, one = z.to(torch.complex128), torch.tensor(1 + 1j)
    a = z * wide, z * d, z * d[0], z * wide[0], z * h, z * i, z * b, r * 1j, d * 1j, i * 1j, h * 1j, d * one, d + one, r + one
    return *a, torch.cat([z, r]), torch.where(b, z, r), torch.where(b, d, z[0]), z / 2, 2 / z, z - d, z + i, torch.stack([z, wide])


@case(torch.tensor([-1.0, 2.0, 0.0]), torch.tensor([0.0, INF, INF]), torch.tensor([complex(1, -0.0), complex(2, 3)]), right=([-1, complex(NAN, NAN), complex(NAN, NAN)],))
def report_facts(m, a, z):
    b = torch.polar(m, a), torch.complex(m, m[:1]), torch.polar(m[0], a[0]), torch.view_as_complex(m[:2]), torch.real(m), m.conj()
    c = z.float(), z.to(torch.bfloat16), z.to(torch.int64), z.sum(), z.mean(), z.var(), torch.linalg.vector_norm(z), z == z, z.exp(), z.sigmoid()
    d = torch.ones_like(z), torch.full((2,), 2j), F.pad(z, (1, 1)), z.masked_fill(z.real > 1, 0), z.repeat_interleave(2), z.roll(1), z.flip(0)
    return *b, *c, *d, z.tanh(), z.tril() if z.dim() > 1 else z, z.unfold(0, 1, 1), z.expand(2, 2).flatten(-2, -1), z.squeeze(), z.unsqueeze(-2)


N = Dim("n", min=1, max=70000)


def lengths(n):
    return torch.arange(n * 4.0).reshape(n, 2, 2) % 7, torch.arange(n) % 3


@case(*lengths(5), dims=({0: N}, {0: N}), more=[lengths(n) for n in (1, 2, 3, 7, 36)])
def report_lengths(x, p):
    t = torch.polar(torch.ones(p.shape[0], 2), torch.outer(p, torch.tensor([1.0, 0.5])))
    return torch.view_as_real(torch.view_as_complex(x.reshape(-1, 2, 1, 2)).squeeze(-1) * t), t.sum(0), t.reshape(-1)[::2]


# -- files -------------------------------------------------------------------------------------------------------------


def check(name, outputs, right):
    for slot, expected in enumerate(right):
        value = outputs[slot]
        torch.testing.assert_close(value.to(torch.complex128), torch.tensor(expected, dtype=torch.complex128).reshape(value.shape),
                                   rtol=1e-6, atol=1e-6, equal_nan=True, msg=lambda text: f"{name}, output {slot}: {text}")


def main():
    for program, inputs, right, dims, more in CASES:
        module = program() if isinstance(program, type) else program
        check(program.__name__, module(*(value.clone() for value in inputs)), right)
        case_write(f"{sys.argv[1]}/{program.__name__}", program, [inputs, *more], dims)


main()
