"""strides.py - the strides of eager PyTorch's results, for operands of any strides.

    python3 strides.py 12 > tests/data/strides.txt        12 programs for each operator below

    ->  # strides 4 12 *
        phasor 1 "mul"
        input v1: c64[3, 8, 1]
        ...
        output v5

Shapes and strides are random, with a fixed seed: permuted, sliced with gaps, broadcast, dims of size 1. A * stands for the
stride of a dim of size 1, which addresses nothing, of an operator that is not held to it. tests/test_strides.c reads the
file. Needs torch.
"""
import random
import sys

import torch

DTYPES = {"c64": torch.complex64, "f32": torch.float32}
SIZES = [1, 1, 2, 3, 4]


class Program:
    """Lines of the text form, each value with its tensor beside it."""

    def __init__(self):
        self.inputs, self.nodes = [], []

    def name(self):
        return f"v{len(self.inputs) + len(self.nodes) + 1}"

    def input(self, dtype, shape):
        name = self.name()
        self.inputs.append(f"input {name}: {dtype}{list(shape)}")
        return name, torch.randn(shape, dtype=DTYPES[dtype])

    def node(self, text, tensor):
        name = self.name()
        self.nodes.append(f"{name} = {text}")
        return name, tensor

    def operand(self, dtype, shape):
        """A value of this shape: an input, sliced along some dims, its dims in any order."""
        order = random.sample(range(len(shape)), len(shape)) if random.random() < 0.7 else list(range(len(shape)))
        sizes = [shape[order.index(axis)] for axis in range(len(shape))]
        steps = [random.choice([1, 1, 1, 2, 3]) for _ in sizes]
        whole = [size * step + random.choice([0, 0, 1]) for size, step in zip(sizes, steps)]
        name, tensor = self.input(dtype, whole)
        for axis, (size, step) in enumerate(zip(sizes, steps)):
            if whole[axis] != size:
                part = tensor.as_strided(
                    [*tensor.shape[:axis], size, *tensor.shape[axis + 1 :]],
                    [s * step if d == axis else s for d, s in enumerate(tensor.stride())],
                    tensor.storage_offset(),
                )
                name, tensor = self.node(f"slice({name}) axis={axis} start=0 length={size} step={step}", part)
        if order != sorted(order):
            name, tensor = self.node(f"permute({name}) axes={order}", tensor.permute(order))
        return name, tensor


def shape_random():
    return [random.choice(SIZES) for _ in range(random.randint(1, 4))]


def elementwise(row, function, dtypes, broadcasts=False):
    def build(program):
        shape = shape_random()
        shapes = [shape] + [shape] * (len(dtypes) - 1)
        if broadcasts and random.random() < 0.5:
            shapes[-1] = [random.choice([1, size]) for size in shape][random.choice([0, 0, 1]) :]
        operands = [program.operand(dtype, s) for dtype, s in zip(dtypes, shapes)]
        return program.node(f"{row}({', '.join(n for n, _ in operands)})", function(*(t for _, t in operands)))

    return build


def chain(program):
    shape = shape_random()
    (a, x), (b, y), (c, z) = (program.operand("c64", shape) for _ in range(3))
    product, xy = program.node(f"mul({a}, {b})", x * y)
    return program.node(f"add({product}, {c})", xy + z)


def along(row, function, attribute):
    def build(program):
        shape = shape_random()
        name, tensor = program.operand(random.choice(["c64", "f32"]), shape)
        axis = random.randrange(len(shape))
        return program.node(f"{row}({name}) {attribute.format(axis)}", function(tensor, axis))

    return build


def part(program):
    name, tensor = program.operand("c64", shape_random())
    half, real = program.node(f"real({name})", tensor.real)
    return program.node(f"neg({half})", -real)


def choice(program):
    shape = shape_random()
    (a, x), (b, y), (c, z) = (program.operand(dtype, shape) for dtype in ["c64", "c64", "f32"])
    zero, _ = program.node("scalar value=0 : f32[]", None)
    mask, m = program.node(f"gt({c}, {zero})", z > 0)
    return program.node(f"where({mask}, {a}, {b})", torch.where(m, x, y))


def product(dtype):
    def build(program):
        rows, inner, columns = (random.choice(SIZES[:4]) for _ in range(3))
        lead = random.choice([[], [1], [2]])
        (a, x), (b, y) = program.operand(dtype, lead + [rows, inner]), program.operand(dtype, lead + [inner, columns])
        return program.node(f"dot({a}, {b})", torch.bmm(x, y) if lead else torch.mm(x, y))

    return build


def ordered(program):
    """The values have the order of dims of what is sorted, and so have their places."""
    shape = shape_random()
    name, tensor = program.operand("f32", shape)
    axis = random.randrange(len(shape))
    values, places = tensor.sort(axis)
    index, _ = program.node(f"sort_index({name}) axis={axis} flag=0", None)
    if random.random() < 0.5:
        return index, places
    gathered, _ = program.node(f"gather({name}, {index}) axis={axis}", None)
    pattern, _ = program.node(f"clone({name}) flag=0", None)
    return program.node(f"insert({pattern}, {gathered}) axis=0 start=0 step=1", values)


def softmax(program):
    shape = shape_random()
    name, tensor = program.operand("f32", shape)
    axis = random.randrange(len(shape))
    kept = [1 if d == axis else size for d, size in enumerate(shape)]
    most, _ = program.node(f"amax({name}) axes=[{axis}]", None)
    most, _ = program.node(f"reshape({most}) sizes={kept}", None)
    shifted, _ = program.node(f"sub({name}, {most})", None)
    powers, _ = program.node(f"exp({shifted})", None)
    total, _ = program.node(f"sum({powers}) axes=[{axis}]", None)
    total, _ = program.node(f"reshape({total}) sizes={kept}", None)
    quotient, _ = program.node(f"div({powers}, {total})", None)
    return program.node(f"clone({quotient}) flag=1", torch.softmax(tensor, axis))


def masked(finish, function):
    def build(program):
        shape = shape_random()
        (a, x), (b, y) = (program.operand("f32", shape) for _ in range(2))
        zero, _ = program.node("scalar value=0 : f32[]", None)
        mask, _ = program.node(f"gt({b}, {zero})", None)
        chosen, _ = program.node(f"where({mask}, {zero}, {a})", None)
        pattern, _ = program.node(f"clone({a}) flag=0", None)
        return program.node(finish.format(a=pattern, chosen=chosen), function(x, y > 0))

    return build


def written(row, method, flag, is_row_major):
    """The index names each place of the axis once; a scatter has an index of the operand's shape."""

    def build(program):
        shape = shape_random()
        axis = random.randrange(len(shape))
        (a, x), (b, y) = (program.operand("f32", shape) for _ in range(2))
        line = torch.arange(shape[axis])
        if row == "scatter":
            line = line.reshape([-1 if d == axis else 1 for d in range(len(shape))]).expand(shape)
        index = program.name()
        program.inputs.append(f"input {index}: i64{list(line.shape)}")
        if is_row_major:
            a, _ = program.node(f"clone({a}) flag=1", None)
        operands = [a, index, b] if row == "scatter" else [a, b, index]
        result = getattr(x, method)(axis, line, 0 if method == "index_fill" else y)
        return program.node(f"{row}({', '.join(operands)}) axis={axis} flag={flag}", result)

    return build


def angle(program):
    name, tensor = program.operand("c64", shape_random())
    angles, _ = program.node(f"angle({name})", None)
    return program.node(f"clone({angles}) flag=1", torch.angle(tensor))


def indexed(program):
    """One or two neighbouring axes by indices of one or two dims, themselves in any order."""
    shape = shape_random()
    (a, x) = program.operand(random.choice(["c64", "f32"]), shape)
    axis = random.randrange(len(shape))
    count = random.randint(1, min(2, len(shape) - axis))
    places = [random.choice([1, 2, 3]) for _ in range(random.randint(1, 2))]
    names, indices = [], []
    for _ in range(count):
        name, drawn = program.operand("f32", places)
        name, _ = program.node(f"cast({name}) : i64{places}", None)
        names.append(name)
        indices.append(torch.zeros_like(drawn, dtype=torch.long))
    result = x[(slice(None),) * axis + tuple(indices)]
    return program.node(f"index({a}, {', '.join(names)}) axis={axis}", result)


def slice_written(program):
    shape = shape_random()
    (a, x) = program.operand(random.choice(["c64", "f32"]), shape)
    axis = random.randrange(len(shape))
    length = random.randint(1, shape[axis])
    (b, y) = program.operand({torch.complex64: "c64", torch.float32: "f32"}[x.dtype], shape[:axis] + [length] + shape[axis + 1 :])
    result = torch.slice_scatter(x, y, axis, 0, length)
    return program.node(f"insert({a}, {b}) axis={axis} start=0 step=1", result)


def diagonal_written(program):
    rows, columns = random.choice(SIZES), random.choice(SIZES)
    (a, x), (b, y) = program.operand("c64", [rows, columns]), program.operand("c64", [min(rows, columns)])
    return program.node(f"insert_diagonal({a}, {b}) axes=[0, 1] start=0", torch.diagonal_scatter(x, y))


def added_product(program):
    rows, inner, columns = (random.choice(SIZES[1:]) for _ in range(3))
    (a, x), (b, y) = program.operand("f32", [rows, inner]), program.operand("f32", [inner, columns])
    (c, z) = program.operand("f32", random.choice([[rows, columns], [columns], [1, columns]]))
    name, _ = program.node(f"dot({a}, {b})", None)
    return program.node(f"add({name}, {c})", torch.addmm(z, x, y))


def zeroed(program):
    """zero_ of a clone: what is written keeps the strides of the memory."""
    (a, x) = program.operand("c64", shape_random())
    copy, memory = program.node(f"clone({a}) flag=0", x.clone())
    zero, _ = program.node("scalar value=0 : c64[]", None)
    zeros, _ = program.node(f"expand({zero}) sizes={list(memory.shape)}", None)
    return program.node(f"insert({copy}, {zeros}) axis=0 start=0 step=1", memory.zero_())


ALL = {
    "add": elementwise("add", torch.add, ["c64", "c64"], True),
    "sub": elementwise("sub", torch.sub, ["c64", "c64"], True),
    "mul": elementwise("mul", torch.mul, ["c64", "c64"], True),
    "mul of real": elementwise("mul", torch.mul, ["f32", "f32"], True),
    "mul, add": chain,
    "exp": elementwise("exp", torch.exp, ["c64"]),
    "sin": elementwise("sin", torch.sin, ["c64"]),
    "complex": elementwise("complex", torch.complex, ["f32", "f32"]),
    "clone": elementwise("clone", torch.clone, ["c64"]),
    "neg of real": part,
    "flip": along("flip", lambda t, axis: torch.flip(t, [axis]), "axes=[{}]"),
    "sum": along("sum", torch.sum, "axes=[{}]"),
    "prod": along("prod", torch.prod, "axes=[{}]"),
    "any": along("any", torch.any, "axes=[{}]"),
    "cumsum": along("cumsum", torch.cumsum, "axis={}"),
    "cumprod": along("cumprod", torch.cumprod, "axis={}"),
    "dot": product("c64"),
    "dot of real": product("f32"),
}
# The strides of their dims of size 1 are not eager's yet.
ALL_BUT_ONES = {
    "index": indexed,
    "div": elementwise("div", torch.div, ["c64", "c64"], True),
    "pow": elementwise("pow", torch.pow, ["c64", "c64"]),
    "abs": elementwise("abs", torch.abs, ["c64"]),
    "conj": elementwise("conj", torch.conj_physical, ["c64"]),
    "where": choice,
}

# As the loader writes what is one operator in eager.
LOADED = {
    "sort": ordered,
    "softmax": softmax,
    "masked_fill": masked("clone({chosen}) flag=1", lambda x, mask: x.masked_fill(mask, 0)),
    "index_put of a mask": masked(
        "insert({a}, {chosen}) axis=0 start=0 step=1", lambda x, mask: x.index_put((mask,), torch.tensor(0.0))
    ),
    "scatter": written("scatter", "scatter", 0, True),
    "scatter_add": written("scatter", "scatter_add", 1, True),
    "index_add": written("index_put", "index_add", 1, True),
    "index_copy": written("index_put", "index_copy", 0, True),
    "index_fill": written("index_put", "index_fill", 0, False),
    "angle": angle,
    "slice_scatter": slice_written,
    "diagonal_scatter": diagonal_written,
    "addmm": added_product,
    "zero_": zeroed,
}


def main():
    random.seed(1)
    for name, build in [*ALL.items(), *ALL_BUT_ONES.items(), *LOADED.items()]:
        for _ in range(int(sys.argv[1])):
            program = Program()
            output, tensor = build(program)
            strides = [
                "*" if size == 1 and name in ALL_BUT_ONES else str(stride)
                for size, stride in zip(tensor.shape, tensor.stride())
            ]
            lines = [f'phasor 1 "{name}"', *program.inputs, *program.nodes, f"output {output}"]
            print("\n".join([" ".join(["# strides", *strides]), *lines, ""]))


main()
