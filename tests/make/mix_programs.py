"""mix_programs.py - programs that between them use every operator of the complex algebra, and the real ones around it.

    python3 mix_programs.py tests/cases            ->  tests/cases/mix_01 ... mix_26, each as tests/cases/README.md says
    python3 mix_programs.py tests/cases 22 23      ->  those two alone, with the same inputs

tests/test_mix.c holds the list of operators, and fails when none of the programs uses one of them.
"""
import sys

import torch
import torch.nn.functional as F
from torch.export import Dim

from case_files import case_write

GENERATOR = torch.Generator().manual_seed(20)


def real(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=GENERATOR, dtype=torch.float64).to(dtype)


def cplx(*shape, dtype=torch.complex64):
    return torch.randn(shape, generator=GENERATOR, dtype=torch.complex128).to(dtype)


def ints(low, high, *shape):
    return torch.randint(low, high, shape, generator=GENERATOR)


def flags(*shape):
    return torch.rand(shape, generator=GENERATOR) > 0.5


# -- complex elementwise -----------------------------------------------------------------------------------------------


def sums(z, w, r):
    a = torch.add(z, w, alpha=2) - torch.sub(w, r, alpha=3)
    b = torch.rsub(z, w, alpha=2) + torch.rsub(z, 1.5)
    c = (z + 1j) - (2.5 - w) + (r + 2j)
    return a, b, c, -a, torch.neg(b) + 1, torch.subtract(z, 0.5j), torch.positive(c)


def products(z, w, r):
    a = z * w * r * 2.0 * 1j
    b = z / w + z / r + r / w + 1 / w + z / 2 + z / (1 + 2j)
    return a, b, torch.reciprocal(z), z.square(), torch.true_divide(w, z), torch.multiply(r, 1j), torch.divide(z, 3.0)


def parts(z, r):
    a = torch.conj(z).real + z.conj().imag
    b = torch._conj_physical(z) + z.conj().resolve_conj()
    c = torch.complex(r, r.flip(-1)) + torch.polar(r.abs(), r)
    return a, b, c, z.abs(), torch.angle(z), torch.sgn(z), torch.real(z) + torch.imag(z), z.conj().T.conj()


def exponentials(z):
    p = z * 0.5
    a = torch.exp(p) + torch.expm1(p * 1e-3) + torch.exp2(p)
    b = torch.log(p) + torch.log2(p) + torch.log10(p) + torch.log1p(p)
    return a, b, torch.sqrt(p), torch.rsqrt(p), torch.sigmoid(p)


def powers(z, w, r):
    return z**2, z**3, z**-1, z**-2, z**0.5, z**0, z**2.5, z**w, 2.0**z, r.abs() ** z, torch.float_power(z, 2), z ** (1 + 1j)


def circular(z):
    p = z * 0.5
    a = torch.sin(p) + torch.cos(p), torch.tan(p), torch.sinh(p) - torch.cosh(p), torch.tanh(p)
    b = torch.asin(p), torch.acos(p), torch.atan(p), torch.asinh(p), torch.acosh(p), torch.atanh(p)
    return *a, *b


def doubles(z, w, x):
    a = z * w + x - z.to(torch.complex64)
    b = w.exp() / z.abs() + (z @ w).log()
    return a, b, z.sum(), w.prod(0), z.cumsum(1), torch.view_as_real(w * 2), z.to(torch.complex64), x * 1j


# -- reductions and products of matrices -------------------------------------------------------------------------------


def reductions(z):
    a = z.sum(), z.sum(1), z.mean(0, keepdim=True), z.mean(), z.prod(), z.prod(1)
    b = z.cumsum(0), z.cumprod(1), z.var(1), z.std(), torch.linalg.vector_norm(z, dim=1), z.norm()
    return *a, *b, z.any(), z.all(1), torch.any(z.real > 2, 0), torch.all(z.abs() > 0)


def matrices(z, w, v, r):
    a = torch.mm(z, w), torch.matmul(z[None], w), torch.bmm(z[None], w[None]), z @ r.to(torch.complex64)
    b = torch.addmm(z @ w, z, w, beta=0.5, alpha=2j), torch.dot(v, v), torch.vdot(v, v), torch.outer(v, v), torch.mv(z, v)
    c = torch.einsum("ij,jk->ki", z, w), F.linear(z, w.T, v[:4]), torch.einsum("i,ij->j", v[:3], z.abs().to(torch.complex64))
    return *a, *b, *c


# -- comparing and choosing --------------------------------------------------------------------------------------------


def choices(z, w, m, source):
    a = torch.eq(z, w), z != w, torch.isnan(z / (w - w)), torch.isinf(z * float("inf")), torch.isfinite(z), z.eq(1 + 1j)
    b = torch.where(m, z, w), torch.where(m, z, 1), torch.where(m, z.real, w), z.masked_fill(m, 2j)
    c = torch.masked_scatter(z, m, source), torch.logical_not(z), torch.nn.functional.pad(z, (1, 2), value=3.0)
    return *a, *b, *c, z.clone().masked_fill_(m, 0)


# -- places ------------------------------------------------------------------------------------------------------------


def places(z, i, j, g):
    a = z[i], z[:, j], z[i, j], z.index_select(1, j), z.gather(1, g), torch.take(z, j), F.embedding(i, z)
    b = torch.index_put(z, (i, j), z[0, :3]), torch.index_put(z, (i,), z[:3], accumulate=True)
    c = z.scatter(1, g, z[:, :2] * 2), z.scatter_add(1, g, z[:, :2]), z.index_copy(0, i, z[:3]), z.index_add(0, i, z[:3])
    d = z.index_fill(0, i, 1j), torch.take_along_dim(z, g, 1)
    return *a, *b, *c, *d


def windows(z, y):
    a = torch.slice_scatter(z, y, 0, 1, 3), torch.select_scatter(z, y[0], 0, 1), torch.diagonal_scatter(z, y[0, :4] * 1)
    b = torch.ops.aten.copy.default(z, y[:1]), torch.fill(z, 2 + 1j), z.tril(), z.triu(1)
    c = z.diagonal(1), z.unfold(1, 3, 2), z.as_strided((6, 4), (4, 1)), z.roll(3), z.roll((1, -1), (0, 1))
    return *a, *b, *c, z.flip(0, 1), z.repeat_interleave(2, 1), z.repeat_interleave(3)


def shapes(z):
    a = z.reshape(6, 2), z.view(-1), z.flatten(), z.unflatten(1, (2, -1)), z.squeeze(), z.unsqueeze(-1), z.expand(2, 3, 4)
    b = z.permute(1, 0), z.transpose(0, -1), z.t(), z.mT, z.mH, z.movedim(0, 1), z.swapaxes(0, 1), z.select(1, -1), z[1:, ::2]
    c = *z.split(2, -1), *z.split([1, 2]), *z.chunk(2, 1), *z.unbind(0), *torch.tensor_split(z, 2, 1), z.narrow(1, 1, 2)
    return *a, *b, *c, z.view_as(z), z.reshape_as(z.T), z.expand_as(torch.zeros(2, 3, 4)), z.repeat(2, 1), z.tile((1, 2))


def joins(z, r, v):
    a = torch.cat([z, r]), torch.stack([z, z.conj()], -1), torch.hstack([z, r]), torch.vstack([z, z]), torch.dstack([z, r])
    b = *torch.meshgrid(v, v[:2], indexing="ij"), *torch.meshgrid(v, v, indexing="xy"), *torch.broadcast_tensors(v, z[:, :1])
    return *a, *b, torch.atleast_2d(v), z.contiguous(), z.T.clone(), z.detach(), torch.view_as_complex(torch.view_as_real(z) * 2)


def made(z, r):
    c = torch.complex64
    a = torch.zeros(2, dtype=c), torch.ones(2, 3, dtype=c), torch.full((2,), 1 + 2j), torch.full((2,), 3, dtype=c)
    b = torch.zeros_like(z), torch.ones_like(z), torch.full_like(z, 2), z.new_zeros(2), z.new_ones(2), z.new_full((2,), 1j)
    d = torch.ones_like(r, dtype=c) * z, torch.scalar_tensor(2.5, dtype=c) + z, torch.eye(3, dtype=c) @ z, torch.empty_like(z) * 0 == 0
    return *a, *b, *d[:3], d[3].shape[0], torch.tensor([1 + 1j, 2]) * z[0, 0], torch.empty(2, dtype=c).fill_(1j)


def casts(z, x, b, i, d, m):
    a = x.to(torch.complex64), z.to(torch.complex128), z.real.type_as(d), z.to(torch.float32), z.float()
    c = z + x, z * b, z * i, z + m, z * d, z * d[0], d * z[0], b * 1j, i * 1j, z != 0
    return *a, *c, x.double() * 1j, torch.view_as_real(z).bfloat16(), z.real.half(), z.abs().to(torch.int64), i.to(z.dtype)


# -- real numbers ------------------------------------------------------------------------------------------------------


def reals(x, y):
    a = torch.maximum(x, y), torch.minimum(x, y), x.clamp(-0.5, 0.5), x.clamp(min=y), torch.floor(x), x.ceil(), x.trunc(), x.round()
    b = torch.remainder(x, 0.7), torch.fmod(x, 0.7), x // 0.7, torch.div(x, y, rounding_mode="trunc"), torch.atan2(x, y)
    c = torch.hypot(x, y), torch.copysign(x, y), x.abs() ** 0.3, x.pow(2), x.frac(), x.sign(), x.sgn(), x.erf(), x.exp() * x.sin()
    d = x.amax(1), x.amin(0), x.max(), x.argmax(1), x.argmin(), x.cumsum(0), x.cumprod(1), x.softmax(-1), F.silu(x), F.gelu(x)
    return *a, *b, *c, *d, x < y, x <= 0, x > y, x >= 0.1, torch.where(x > y, x, 0.0), x.logsumexp(1), x.lerp(y, 0.3), x.var(0)


def integers(i, j, m):
    a = i // j, i % j, torch.fmod(i, j), torch.div(i, j, rounding_mode="floor"), torch.div(i, j, rounding_mode="trunc")
    b = i & j, i | j, i ^ j, ~i, i << 2, i >> 1, i * j - i, i.abs(), -i, i**2, m & ~m, m | m, m ^ m, torch.logical_and(m, i > 0)
    c = i.sum(), i.prod(), i.cumsum(0), i.amax(), i.any(), torch.logical_or(m, m), torch.logical_xor(m, m), i.sort().values, i.topk(2).indices
    return *a, *b, *c, i.to(torch.float32) / j, i.to(torch.int8), i.bool(), i.sort(descending=True).indices, i.argsort()


# -- in place, sizes, branches -----------------------------------------------------------------------------------------


def in_place(z, i):
    y = z.clone()
    y[:, 0] = 1
    y[1].mul_(1j)
    y[i] += 2
    y.real.add_(1)
    y.imag[0].zero_()
    torch.view_as_real(y)[..., 1].neg_()
    y.T[2].fill_(3 - 1j)
    y.masked_fill_(y.real > 3, 0).div_(2).sub_(1j).conj_physical_()
    y.diagonal().copy_(z[0, :4])
    y.index_put_((i, i), z[0, : i.shape[0]] * 1)
    return y, y.reshape(-1)[2:], y.tril_().abs()


def sizes(z, x):
    n, m = z.shape[0], x.shape[0]
    t = torch.polar(torch.ones(n, 4), torch.outer(torch.arange(n), torch.linspace(0, 1, 4)))
    a = z * t, torch.arange(n, n + m), torch.arange(0, 2 * n, 2), torch.full((n,), 0.5), z[1:], z[-1], z.sum(0) / n
    return *a, torch.cat([z, z[: n - 1]]), F.pad(x, (0, n)), z.T @ z.conj(), n * m, n // 2, n - m


class Branches(torch.nn.Module):
    def forward(self, z, p):
        def inner_yes(u, q):
            return u * 2j

        def inner_no(u, q):
            return u.conj() + 1

        def yes(u, q):
            return torch.cond(q[1] > 0, inner_yes, inner_no, (u, q)) * 2

        def no(u, q):
            return u.exp() - 1j

        return torch.cond(p[0] > 0, yes, no, (z, p)), torch.cond(p.sum() > 0, inner_yes, inner_no, (z, p)).abs()


# -- views over memory, masks, numbers taken from tensors --------------------------------------------------------------


def written_views(z, x):
    y = z.clone()
    y.conj().mul_(2j)
    y.mH[1].add_(1)
    copy = y.conj().resolve_conj() * 3
    u = x.clone()  # run_decompositions() of PyTorch 2.15 loses what no window covers: these cover all
    u.unfold(0, 2, 2).mul_(10)
    u.unfold(1, 3, 3)[:, 0].fill_(-1)
    s = x.clone()
    s.as_strided((2, 2), (5, 2), 1).add_(100)
    a = z.as_strided((2, 3), (3, 1)), z[1:].as_strided((2, 2), (6, 2), 7), x.as_strided((3, 4), (2, 1)), x.as_strided((3, 4), (0, 1))
    b = torch.view_as_real(z).as_strided((4,), (3,), 1), z.as_strided((2, 1, 3), (1, 99, 4)), z.as_strided((0, 3), (3, 1)), z.as_strided((6, 4), (1, 6))
    return y, copy, u, s, *a, *b, torch.as_strided_scatter(z, z[:2, :2].clone(), (2, 2), (6, 2), 3), torch._neg_view(z) + 0


def masks(x, m, v, r, w, c):
    y = x.clone()
    y[:, c] = 1
    y[m] = v.sum()
    a = x.index_put((m,), v), x.index_put((m,), v, accumulate=True), x.index_put((r,), w), x.index_put((r,), w[:1]), x.index_put((r,), w[0])
    return y, *a, x.index_put((r,), x[0, 0] * 2), x.masked_scatter(m, v)


def taken(x, n, f):
    k = n.item()
    torch._check(k >= 0)
    torch._check(k < x.shape[0])
    y = x.clone()
    y[k] = 3
    a = x * k, x + k * 2 + 1, x - k // 2, x * (k % 3), x / k, k - x, torch.full_like(x, k), torch.where(x > 0, x, k), x.pow(k)
    return *a, y, x[k], x[k] * 2, x * f.item()


def composed(z, w, x):
    a = torch.isclose(z, z * (1 + 1e-6)), torch.isreal(z), z.count_nonzero(), z.trace(), torch.diag(z[0]), torch.diag(z, 1), torch.diagflat(z[0], -1)
    b = torch.diag_embed(z, 1, 0, 2), z.fliplr(), z.flipud(), torch.rot90(z), torch.rot90(z, 2), torch.rot90(z, -1, (1, 0)), *z.hsplit(2), *z.vsplit([1])
    c = torch.column_stack([z[0], z]), torch.block_diag(z, w), torch.cartesian_prod(z[0], w[0]), torch.inner(z, w), torch.tensordot(z, w, ([1], [1]))
    d = torch.kron(z, w), torch.addr(z, z[0], z[1], beta=2, alpha=1j), torch.linalg.vecdot(z, z), torch.linalg.matrix_norm(z), torch.linspace(1j, 2 - 3j, 5)
    e = [F.pad(x, pad, mode=mode) for mode in ("reflect", "replicate", "circular") for pad in ((1, 2, 2, 1), (-1, 2, 0, 1))]
    return *a, *b, *c, *d, *e, torch.linspace(-7, 10, 6, dtype=torch.int64), x.signbit(), *x.aminmax(), torch.empty_permuted((2, 3), (1, 0)).fill_(2)


def narrow_literals(u, i, x):
    a = u + -1, u * -1, u == -1, u > -1, u < -1, u >= -1, u.clamp(-5, 100), u // -3, u % -3, torch.where(u > 3, u, -1), u < 300, u | -1
    b = i + 200, i == 200, i < 200, i.clamp(-300, 300), i - 129, i | 128, torch.full_like(u, -1), u.masked_fill(u > 3, -1)
    return *a, *b, 1 / x.sum(0), 1 / x.cumsum(0), 1 / x[0].sum(), 1 / x.mean(1), 1 / x.prod(0), torch.view_as_complex(x).cumsum(0)


def programs():
    z, w, r = cplx(3, 4), cplx(3, 4), real(3, 4)
    yield sums, [(z, w, r), (cplx(3, 4), cplx(3, 4), real(3, 4))], None
    yield products, [(z, w, real(4) + 3)], None
    yield parts, [(z, r)], None
    yield exponentials, [(z,)], None
    yield powers, [(z, cplx(4), r)], None
    yield circular, [(z,)], None
    yield doubles, [(cplx(4, 4, dtype=torch.complex128), cplx(4, 4, dtype=torch.complex128), real(4, dtype=torch.float64))], None
    yield reductions, [(z,)], None
    yield matrices, [(cplx(3, 4), cplx(4, 4), cplx(4), real(4, 4))], None
    yield choices, [(z, torch.where(flags(3, 4), z, w), flags(3, 4), cplx(12))], None
    yield places, [(cplx(4, 5), torch.tensor([0, 2, 1]), torch.tensor([1, 1, 4]), torch.tensor([[0, 1], [1, 3], [2, 0], [3, 2]]))], None
    yield windows, [(cplx(4, 6), cplx(2, 6))], None
    yield shapes, [(z,)], None
    yield joins, [(z, r, cplx(4))], None
    yield made, [(z, r)], None
    yield casts, [(z, r, real(4, dtype=torch.bfloat16), ints(-3, 4, 4), real(4, dtype=torch.float64), flags(4))], None
    yield reals, [(real(3, 4), real(3, 4))], None
    yield integers, [(ints(-9, 10, 3, 4), ints(1, 5, 4), flags(4))], None
    yield in_place, [(cplx(4, 4), torch.tensor([0, 2]))], None
    n, m = Dim("n", min=3, max=64), Dim("m", min=2, max=64)
    dims = ({0: n}, {0: m})
    yield sizes, [(cplx(5, 4), real(3)), (cplx(3, 4), real(2)), (cplx(7, 4), real(9)), (cplx(36, 4), real(21))], dims
    yield Branches, [(z, torch.tensor(p)) for p in ([1.0, 1.0], [1.0, -2.0], [-1.0, 0.5], [-1.0, 2.0])], None
    yield written_views, [(cplx(4, 6), real(6, 6))], None
    mask, rows = torch.tensor([1, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1]).bool().view(4, 5), torch.tensor([1, 0, 1, 0]).bool()
    yield masks, [(cplx(4, 5), mask, cplx(7), rows, cplx(2, 5), torch.tensor([1, 0, 1, 0, 1]).bool())], None
    yield taken, [(real(5, 3), torch.tensor(k), torch.tensor(0.5, dtype=torch.float64)) for k in (2, 1, 4)], None
    yield composed, [(cplx(4, 4), cplx(2, 4), real(2, 3, 4, 5))], None
    u, i = ints(0, 256, 3, 5).to(torch.uint8), ints(-128, 128, 3, 5).to(torch.int8)
    yield narrow_literals, [(u, i, torch.full((3, 2), -0.0))], None


def main():
    wanted = [int(text) for text in sys.argv[2:]]
    for index, (program, sets, dims) in enumerate(programs(), 1):
        if wanted and index not in wanted:
            continue
        case_write(f"{sys.argv[1]}/mix_{index:02}", program, sets, dims)


main()
