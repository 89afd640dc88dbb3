#!/usr/bin/env python3
"""export.py - writes a PyTorch program as Phasor's cases have it (needs torch 2.9 or newer and safetensors).

    tools/export.py model.py:Rope --input q=bf16[2,33,8,128] --input k=bf16[2,33,2,128] \\
        --dim q.1=seq:1:4096 --dim k.1=seq --also seq=1 --also seq=300 --out rope

    ->  rope/plain.pt2 and core.pt2        the program, before and after run_decompositions()
        rope/graph.txt                     the program as text, for people
        rope/inputs_0.safetensors, ...     tensors input_0, input_1, ... of each set of sizes
        rope/outputs_0.safetensors, ...    what eager PyTorch returned for it

    phasor run rope/plain.pt2 --inputs rope/inputs_1.safetensors --expect rope/outputs_1.safetensors

model.py:NAME is a module's class (made without arguments), a module, or a function. Its example inputs come from --input,
or from the function example_inputs() of model.py: a tuple of arguments, or a list of tuples, the first of which the program
is exported with while the others become more sets. A complex tensor is stored as its real view, and named with its dtype in
the file's metadata; what is no tensor stands in the metadata alone.

A dim that --dim names is free within its range, both ends included. PyTorch makes a constant of a dim whose example size is
0 or 1: export with 2 or more and give 1 as the least, then calls of length 1 are served too.
"""

import argparse
import ast
import copy
import importlib.util
import inspect
import os
import re
import sys
import warnings

import torch
import torch.utils._pytree as pytree
from safetensors.torch import save_file
from torch.export import Dim

DTYPES = {
    "bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
    "c64": torch.complex64, "c128": torch.complex128,
}


def stop(message):
    sys.exit(f"export.py: {message}")


# -- the program -------------------------------------------------------------------------------------------------------


def file_load(path):
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or not os.path.exists(path):
        stop(f"{path}: no such Python file")
    file = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(file)
    return file


def module_make(file, name):
    """A module whose forward has the parameters that the program's inputs are named after."""
    found = getattr(file, name, None)
    if isinstance(found, type) and issubclass(found, torch.nn.Module):
        found = found()
    if isinstance(found, torch.nn.Module):
        return found.eval()
    if not callable(found):
        stop(f"{file.__file__} has no module or function {name}")
    return type(name, (torch.nn.Module,), {"forward": staticmethod(found)})().eval()


# -- example inputs ----------------------------------------------------------------------------------------------------


def words_split(text, what):
    """ "seq=1,q.0=4" -> {"seq": "1", "q.0": "4"} """
    pairs = [word.partition("=") for word in text.split(",")]
    if not all(name and equals and value for name, equals, value in pairs):
        stop(f"{what} {text}: expected NAME=VALUE")
    return {name: value for name, _, value in pairs}


def tensor_random(dtype, shape, generator):
    """Integers and bools are 0 or 1, so that they are good as indices."""
    if dtype.is_floating_point or dtype.is_complex:
        wide = torch.complex128 if dtype.is_complex else torch.float64
        return torch.randn(shape, dtype=wide, generator=generator).to(dtype)
    return torch.randint(0, 2, shape, generator=generator).to(dtype)


def input_make(name, text, sizes, generator):
    """ "bf16[2,33]" with sizes {"x.1": 7} -> a bfloat16 tensor [2, 7]; "5", "2.5", "None" -> that value """
    tensor = re.fullmatch(r"(\w+)\[([\d, ]*)\]", text)
    if not tensor:
        try:
            return sizes.get(name, ast.literal_eval(text))
        except (ValueError, SyntaxError):
            stop(f"--input {name}={text}: expected a tensor such as f32[2,17] or a Python value")
    if tensor[1] not in DTYPES:
        stop(f"--input {name}={text}: unknown dtype {tensor[1]}; there are {', '.join(DTYPES)}")
    shape = [int(size) for size in tensor[2].split(",") if size.strip()]
    shape = [sizes.get(f"{name}.{axis}", size) for axis, size in enumerate(shape)]
    return tensor_random(DTYPES[tensor[1]], shape, generator)


def sizes_of(also, dims):
    """ "seq=7" with q.1=seq and k.1=seq -> {"q.1": 7, "k.1": 7} """
    sizes = {}
    for name, value in words_split(also, "--also").items():
        places = [place for place, symbol, *_ in dims if symbol == name] or [name]
        sizes.update({place: int(value) for place in places})
    return sizes


def sets_make(options, file, module):
    """All sets of inputs, the one to export with first."""
    if not options.input:
        if not hasattr(file, "example_inputs"):
            stop(f"no example inputs: give --input NAME=DTYPE[SIZES], or define example_inputs() in {file.__file__}")
        if options.also:
            stop("--also needs --input; more sets of example_inputs() are more tuples in a list")
        given = file.example_inputs()
        return given if isinstance(given, list) else [given]
    texts = dict(text.partition("=")[::2] for text in options.input)
    parameters = list(inspect.signature(module.forward).parameters)
    if list(texts) != parameters[: len(texts)]:
        stop(f"--input names {', '.join(texts)}; the parameters are {', '.join(parameters)}, in this order")
    generator = torch.Generator().manual_seed(options.seed)
    return [
        tuple(input_make(name, text, sizes, generator) for name, text in texts.items())
        for sizes in [{}] + [sizes_of(also, options.dims) for also in options.also]
    ]


# -- dynamic dims ------------------------------------------------------------------------------------------------------


def dim_read(text):
    """ "q.1=seq:1:4096" -> ("q.1", "seq", 1, 4096); "q.1=seq" -> ("q.1", "seq", None, None) """
    form = re.fullmatch(r"([\w.]+)=([A-Za-z_]\w*)(?::(\d+):(\d+))?", text)
    if not form:
        raise argparse.ArgumentTypeError(f"{text}: expected INPUT.AXIS=NAME:LEAST:MOST, as in q.1=seq:1:4096")
    least, most = (int(form[3]), int(form[4])) if form[3] else (None, None)
    return form[1], form[2], least, most


def ranges_make(dims):
    """{"seq": (1, 4096)}"""
    ranges = {}
    for place, name, least, most in dims:
        if least is not None and ranges.setdefault(name, (least, most)) != (least, most):
            stop(f"--dim {place}={name}:{least}:{most}: {name} has the range {ranges[name]} already")
    for place, name, *_ in dims:
        if name not in ranges:
            stop(f"--dim {place}={name}: no range; one dim of that name needs {name}:LEAST:MOST")
    return ranges


def leaf_name(path):
    """The place of a value in nested arguments, as in "tables.cos" or "pair.0"."""
    return ".".join(str(getattr(step, "key", getattr(step, "idx", getattr(step, "name", step)))) for step in path)


def shapes_make(module, inputs, dims):
    """What torch.export takes as dynamic_shapes: in the inputs' own structure, {axis: Dim} for each tensor."""
    ranges, open_places = ranges_make(dims), {place: name for place, name, *_ in dims}
    symbols = {name: Dim(name, min=least, max=most) for name, (least, most) in ranges.items()}

    def leaf_shapes(path, value):
        name = leaf_name(path)
        if not isinstance(value, torch.Tensor):
            symbol = open_places.pop(name, None)
            return Dim.DYNAMIC(min=ranges[symbol][0], max=ranges[symbol][1]) if symbol else None
        axes = {axis: open_places.pop(f"{name}.{axis}", None) for axis in range(value.dim())}
        for axis, symbol in axes.items():
            if symbol and value.shape[axis] < 2:
                stop(f"{name}.{axis} is {value.shape[axis]} in the example: PyTorch makes a constant of it; export with 2 or more")
        return {axis: symbols[symbol] for axis, symbol in axes.items() if symbol}

    arguments = dict(inspect.signature(module.forward).bind(*inputs).arguments)
    shapes = pytree.tree_map_with_path(leaf_shapes, arguments, is_leaf=lambda value: value is None)
    if open_places:
        stop(f"--dim {', '.join(open_places)}: no such input and axis")
    return shapes if dims else None


# -- files -------------------------------------------------------------------------------------------------------------


def folders_drop(exported):
    """Source lines keep the names of their files; the folders are of this machine alone."""
    for graph_module in exported.graph_module.modules():
        if isinstance(graph_module, torch.fx.GraphModule):
            for node in graph_module.graph.nodes:
                if isinstance(trace := node.meta.get("stack_trace"), str):
                    node.meta["stack_trace"] = re.sub(r'(File ")[^"]*/', r"\1", trace)
    return exported


def constants_resolve(exported):
    """A tensor that is conjugated or negated by a bit (x.conj(), z.imag of one) is saved as the bytes under it, without
    the bit: another value. What the program holds is written out before, and named."""
    for held in (exported.state_dict, exported.constants):
        for name, value in held.items():
            if isinstance(value, torch.Tensor) and (value.is_conj() or value.is_neg()):
                bits = " and ".join(word for word, is_set in (("conjugated", value.is_conj()), ("negated", value.is_neg())) if is_set)
                print(f"export.py: {name} is {bits}: its values are written out, since a .pt2 keeps no such bit", file=sys.stderr)
                resolved = value.detach().resolve_conj().resolve_neg()
                is_parameter = isinstance(value, torch.nn.Parameter)
                held[name] = torch.nn.Parameter(resolved, value.requires_grad) if is_parameter else resolved
    return exported


def values_write(path, prefix, values):
    tensors, metadata = {}, {}
    for index, value in enumerate(pytree.tree_leaves(values, is_leaf=lambda value: value is None)):
        name = f"{prefix}_{index}"
        if not isinstance(value, torch.Tensor):
            metadata[name] = repr(value)
            continue
        value = value.detach().cpu()
        if value.is_complex():
            metadata[name] = str(value.dtype)
            value = torch.view_as_real(value.resolve_conj().resolve_neg())
        tensors[name] = value.resolve_neg().contiguous().clone()
    save_file(tensors, path, metadata=metadata or None)


def values_clone(values):
    return pytree.tree_map(lambda value: value.clone() if isinstance(value, torch.Tensor) else value, values)


def program_write(folder, module, inputs, shapes):
    plain = constants_resolve(torch.export.export(module, values_clone(inputs), dynamic_shapes=shapes))
    core = plain.run_decompositions()
    with open(f"{folder}/graph.txt", "w") as text:
        text.write(re.sub(r"# File: [^ ]*/", "# File: ", str(plain)))
    torch.export.save(folders_drop(plain), f"{folder}/plain.pt2")
    torch.export.save(folders_drop(core), f"{folder}/core.pt2")
    for symbol, bounds in plain.range_constraints.items():
        print(f"{symbol}: {bounds.lower} to {bounds.upper}")


def sets_write(folder, module, sets):
    for index, inputs in enumerate(sets):
        # A program may change its inputs and buffers: each set starts from the module as it was exported.
        with torch.no_grad():
            outputs = copy.deepcopy(module)(*values_clone(inputs))
        values_write(f"{folder}/inputs_{index}.safetensors", "input", inputs)
        values_write(f"{folder}/outputs_{index}.safetensors", "output", outputs)


def options_read():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="MODULE.py:NAME")
    parser.add_argument("--input", action="append", default=[], metavar="NAME=DTYPE[SIZES]", help="or NAME=VALUE")
    parser.add_argument("--dim", action="append", default=[], dest="dims", type=dim_read, metavar="INPUT.AXIS=NAME:LEAST:MOST")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=SIZE,...", help="one more set, of other sizes")
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs")
    parser.add_argument("--out", required=True, metavar="DIR")
    return parser.parse_args()


def main():
    options = options_read()
    warnings.simplefilter("ignore", FutureWarning)  # PyTorch's own, about its own files
    path, colon, name = options.program.rpartition(":")
    if not colon:
        stop(f"{options.program}: expected MODULE.py:NAME")
    file = file_load(path)
    module = module_make(file, name)
    sets = sets_make(options, file, module)
    shapes = shapes_make(module, sets[0], options.dims)
    os.makedirs(options.out, exist_ok=True)
    program_write(options.out, module, sets[0], shapes)
    sets_write(options.out, module, sets)
    print(f"{options.out}: plain.pt2, core.pt2 and {len(sets)} set{'s' if len(sets) > 1 else ''} of inputs and outputs")


if __name__ == "__main__":
    main()
