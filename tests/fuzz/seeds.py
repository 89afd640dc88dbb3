#!/usr/bin/env python3
"""First inputs and dictionaries of the fuzz targets, from the cases and the sources.

    seeds.py PHASOR FOLDER  ->  FOLDER/seeds/TARGET/*, FOLDER/TARGET.dict
"""
import glob
import io
import json
import os
import re
import struct
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PHASOR, FOLDER = sys.argv[1:3]


def put(target, name, data):
    folder = os.path.join(FOLDER, "seeds", target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)


def dictionary(target, words):
    with open(os.path.join(FOLDER, target + ".dict"), "w") as file:
        for word in sorted(set(words)):
            file.write('"%s"\n' % word.replace("\\", "\\\\").replace('"', '\\"'))


def source(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def literals(*paths):
    return [w for path in paths for w in re.findall(r'"([A-Za-z_][A-Za-z0-9_.]{1,60})"', source(path))]


def pt2_parts(path):
    with zipfile.ZipFile(path) as archive:
        return {name.split("/", 1)[1]: archive.read(name) for name in archive.namelist()}


def model_small(text, keep_trace):
    """Without what the reader skips."""
    model = json.loads(text)
    model["graph_module"].pop("module_call_graph", None)
    model["graph_module"].pop("treespec_namedtuple_fields", None)

    def walk(item):
        if isinstance(item, dict):
            for key in ("requires_grad", "device", "is_hop_single_tensor_return", "torch_fn"):
                item.pop(key, None)
            if not keep_trace and "stack_trace" in item:
                del item["stack_trace"]
        for inner in item.values() if isinstance(item, dict) else item if isinstance(item, list) else []:
            walk(inner)

    walk(model)
    return model


def pt2_seeds():
    for path in sorted(glob.glob(ROOT + "/tests/cases/*/*.pt2")):
        name = path.split("/")[-2] + "_" + os.path.basename(path)[:-4]
        parts = pt2_parts(path)
        if "models/model.json" not in parts:
            continue
        model = model_small(parts["models/model.json"], name.startswith("int_input"))
        tables = [json.loads(parts["data/%s/model_%s_config.json" % (kind, kind)])
                  for kind in ("weights", "constants")]
        text = "\0".join(json.dumps(part, separators=(",", ":")) for part in [model] + tables)
        if len(text) < 16000:
            put("pt2_json", name, text)
        parts.pop("data/sample_inputs/model.pt", None)
        if sum(map(len, parts.values())) < 12000 or name.startswith(("int_input_plain", "mix_03")):
            parts["models/model.json"] = json.dumps(model, separators=(",", ":"))
            for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                out = io.BytesIO()
                with zipfile.ZipFile(out, "w", method) as archive:
                    for part, data in parts.items():
                        archive.writestr(zipfile.ZipInfo("m/" + part), data, method)
                put("pt2", "%s_%d" % (name, method), out.getvalue())


def meta(dtype, sizes):
    strides, step = [], 1
    for size in reversed(sizes):
        strides.insert(0, {"as_int": step})
        step *= size if isinstance(size, int) else 4
    symbol = {"as_expr": {"expr_str": "Symbol('s7', positive=True, integer=True)", "hint": {"as_int": 4}}}
    return {"dtype": dtype, "sizes": [{"as_int": n} if isinstance(n, int) else symbol for n in sizes],
            "strides": strides, "storage_offset": {"as_int": 0}, "layout": 7}


TENSORS = {"x": (7, [4, 6]), "y": (7, [4, 6]), "z": (10, [4, 6]), "i": (5, [4]), "m": (12, [4, 6]), "q": (7, [6, 6]),
           "s": (7, ["s7", 6]), "v": (7, [6])}


def model_of(node, extra=None):
    """A program of one node over TENSORS."""
    values = {name: meta(*what) for name, what in TENSORS.items()}
    values["r"] = meta(7, [4, 6])
    specs = [{"user_input": {"arg": {"as_tensor": {"name": name}}}} for name in TENSORS]
    model = {"graph_module": {"graph": {"inputs": [{"as_tensor": {"name": name}} for name in TENSORS],
                                        "outputs": [{"as_tensor": {"name": "r"}}], "nodes": [node],
                                        "tensor_values": values, "sym_int_values": extra or {}, "sym_bool_values": {},
                                        "sym_float_values": {}},
                              "signature": {"input_specs": specs,
                                            "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "r"}}}}]}},
             "range_constraints": {"s7": {"min_val": 1, "max_val": 64}}, "schema_version": {"major": 8, "minor": 17}}
    return json.dumps(model, separators=(",", ":"))


def argument_for(target, name, variant):
    """A value that an argument of this name often has."""
    ints = {"dim": 0, "dim0": 0, "dim1": 1, "dim2": 1, "start": 1, "end": 3, "step": 1, "chunks": 2, "split_size": 2,
            "diagonal": 0, "offset": 0, "k": 2, "n": 3, "steps": 5, "axis": 0, "length": 2, "correction": 1, "m": 3}
    lists = {"size": [4, 6], "shape": [6, 4], "dims": [1, 0], "repeats": [2, 1], "shifts": [1], "pad": [1, 1],
             "split_sizes": [2, 2], "sizes": [2, 2], "normalized_shape": [6], "stride": [6, 1], "physical_layout": [0, 1]}
    tensor = {"index": "i", "indices": "i", "mask": "m", "condition": "m", "mat2": "q", "mat1": "x", "mat": "x",
              "vec": "v", "vec1": "v", "vec2": "v", "weight": "v", "bias": "v"}
    if target.startswith(("_operator", "math", "sym", "torch.sym")) or name in ("a", "b"):
        return {"as_sym_int": {"as_name": "n"}} if name == "a" and variant else {"as_int": 3}
    if name in ints:
        return {"as_int": ints[name]}
    if name in lists:
        return {"as_ints": lists[name]}
    if name == "tensors":
        return {"as_tensors": [{"name": "x"}, {"name": "y"}]}
    if name == "dtype":
        return {"as_scalar_type": 10 if variant == 1 else 8}
    if name in ("value", "fill_value", "exponent", "min", "max", "alpha", "beta", "p", "threshold") or \
            (name == "other" and target.endswith("Scalar")):
        return {"as_float": 1.5}
    return {"as_tensor": {"name": tensor.get(name, "xzsi"[variant] if name in ("self", "input", "x") else "yzsi"[variant])}}


def row_seeds():
    """Each row of aten.def with arguments by their names, for four kinds of tensors."""
    for row, (target, arguments) in enumerate(re.findall(r'(?m)^ATEN\("([^"]+)",\s*"([^"]*)"', source("src/load/aten.def"))):
        names = [a.strip() for a in arguments.split(",") if a.strip()]
        for variant in range(4):
            given = [n.split("=")[0] for n in names if "=" not in n or (variant == 3 and n.startswith("dim="))]
            node = {"target": "torch.ops." + target if target.startswith("aten") else target,
                    "inputs": [{"name": n, "arg": argument_for(target, n, variant), "kind": 1} for n in given],
                    "outputs": [{"as_tensor": {"name": "r"}}], "metadata": {}, "name": "r"}
            put("pt2_json", "row_%03d_%d" % (row, variant), model_of(node))


def size_seeds():
    """Every function of size expressions."""
    symbol = "Symbol('s7', positive=True, integer=True)"
    for name in re.findall(r'(?m)^    \{"(\w+)", \d', source("src/load/symbols.c")):
        for count in (1, 2, 3):
            text = "%s(%s)" % (name, ", ".join([symbol, "Integer(2)", "Integer(3)"][:count]))
            node = {"target": "torch.ops.aten.full.default", "name": "r", "metadata": {},
                    "inputs": [{"name": "size", "arg": {"as_sym_ints": [{"as_int": 2}, {"as_name": "n"}]}, "kind": 1},
                               {"name": "fill_value", "arg": {"as_int": 1}, "kind": 1}],
                    "outputs": [{"as_tensor": {"name": "r"}}]}
            model = json.loads(model_of(node, {"n": {"as_expr": {"expr_str": text, "hint": {"as_int": 4}}}}))
            model["graph_module"]["graph"]["tensor_values"]["y"]["sizes"][0] = {
                "as_expr": {"expr_str": text, "hint": {"as_int": 4}}}
            put("pt2_json", "size_%s_%d" % (name, count), json.dumps(model, separators=(",", ":")))


def text_seeds():
    for path in sorted(glob.glob(ROOT + "/tests/text/*.phasor")):
        for i, block in enumerate(re.split(r"(?m)^# >>> .*\n", source(path))):
            put("text", "%s_%d" % (os.path.basename(path), i), block)
    for path in sorted(glob.glob(ROOT + "/tests/cases/*/plain.pt2")):
        for stage in ("loaded", "real"):
            shown = subprocess.run([PHASOR, "show", path, "--stage", stage, "--cache", ":memory:"],
                                   capture_output=True, check=False).stdout
            if 0 < len(shown) < 6000:
                put("text", path.split("/")[-2] + "_" + stage, shown)
    put("text", "beside", b'phasor 1 "beside"\ndata w: f32[2]\noutput w\n\0' + tensors({"w": ("F32", [2], bytes(8))}))


def tensors(items, metadata=None):
    header, data = {}, b""
    for name, (dtype, shape, values) in items.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    if metadata:
        header["__metadata__"] = metadata
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor_seeds():
    put("safetensors", "two", tensors({"a": ("F32", [2, 2], bytes(16)), "b": ("BF16", [3], bytes(6))}))
    put("safetensors", "complex", tensors({"output_0": ("F32", [2, 2], bytes(16)), "c": ("C64", [1], bytes(8))},
                                          {"output_0": "torch.complex64", "output_1": "4", "output_2": "'x'"}))
    put("safetensors", "empty", tensors({"e": ("I64", [0, 3], b""), "u": ("U8", [], b"x"), "f": ("F64", [1], bytes(8))}))
    put("safetensors", "none", tensors({}))


def small_seeds():
    for i, text in enumerate(["4", "-9223372036854775808", "2.5", "1e-05", "inf", "-inf", "nan", "True", "None",
                              "'a\\n\\x41\\u20ac\\U0001f600'", '"it\'s"', "5e-324", "1.7976931348623157e+308"]):
        put("python", str(i), text)
    for i, text in enumerate(["q.1=1,2,64:512:64\nstart=2\n\nq.0=4 q.1=137\nq.1=9 # one\n", "s=1:4096\n",
                              "q.1=0:9223372036854775807:4611686018427387904\nq.1=3", "\n\nstart=9223372036854775807\r\n",
                              "q.1=17\n\n\n# nothing\nq.0=2\tn=3\n"]):
        put("sizes", str(i), text)
    for i, changes in enumerate([b"\0\0\1\1\3\4abcd", b"\1\5", b"\2\0\1\xff", b"\0\2\5\1\4\4abcd\1\12"]):
        put("cache", str(i), changes)
    numbers = lambda *values: b"".join(struct.pack("<q", v) for v in values)
    text = lambda word: numbers(len(word)) + word
    magic = re.search(r'magic\[\] = "(.*)\\n"', source("src/executable/recipe_blob.c")).group(1).encode() + b"\n"
    put("recipe", "whole", magic + numbers(1, 2, 2, 2, 1, 1, 512, 0)
        + numbers(0, 2, 0, 64, 16) + numbers(2, 0, 0, 64, 16)
        + text(b"k") + text(b"mul") + text(b"key") + numbers(0, 17, 128, 32, 24, 4096, 2, 1, 1, 0, 0, 0, 77)
        + numbers(0, 0, 0, 0, 0, 0) + numbers(2, 0, 0, 0, 1, 64) + numbers(64) + numbers(1, 0, 0, 8, 0, 0, -1, 1, 4, 1) + numbers(0, 0, -1, 0, 0, 5, -1, 0) + numbers(0, 2))
    magic_class = re.search(r'magic\[\] = "(.*)\\n"', source("src/specialise/class_blob.c")).group(1).encode() + b"\n"
    put("class", "nothing", magic_class + numbers(0, 0, 0))
    put("class", "whole", magic_class
        + numbers(3) + numbers(2, 1, 0, 2, 3, 2, 4, 1) + numbers(3, 0, 0, 2, 2, 1, 3, 1) + numbers(4, 0, 0, 2, 5, 1, 3, 1)
        + numbers(2) + numbers(0, 2, 3, 0) + numbers(1, 2, 5, 1)
        + numbers(1) + text(b"k") + text(b"mul") + text(b"key") + numbers(0, 1, 0, 128, 5, 6, 24, -1, 2, 0, 1, 0, 1, 0, 3))
    put("recipe", "nothing", magic + numbers(0, 0, 0, 2, 0, 0, 0, 0) + numbers(*([0, 0, -1, 0, 0, 5, -1, 0] * 2)))


def main():
    os.makedirs(FOLDER, exist_ok=True)
    pt2_seeds()
    row_seeds()
    size_seeds()
    text_seeds()
    tensor_seeds()
    small_seeds()
    tags = literals("src/load/pt2_arguments.c", "src/load/pt2_slots.c", "src/load/pt2_values.c", "src/load/symbols.c",
                    "src/load/pt2.c", "src/load/pt2_weights.c")
    dictionary("pt2_json", tags + literals("src/load/aten.def"))
    dictionary("pt2", tags + ["m/", "../", "models/", "data/weights/", "PK"])
    rows = re.findall(r"(?m)^(?:[A-Z]+)\((\w+),", source("src/graph/ops.def"))
    dtypes = re.findall(r"(?m)^DTYPE\((\w+),", source("src/graph/dtype.def"))
    dictionary("text", rows + dtypes + literals("src/graph/parse.c", "src/graph/parse_slots.c", "src/graph/scan.c")
               + ["start=", "length=", "step=", "axis=", "axes=", "sizes=", "value=", "flag=", "text=", "index=",
                  " = ", " : ", "output ", "write ", "state ", "data ", "[", "]", "9223372036854775807", "#: "])
    dictionary("safetensors", literals("src/load/safetensors.c") + ["data_offsets", "shape", "torch.complex64", "True"])
    dictionary("sizes", ["q.1=", "q.0=", "start=", "s=", "9223372036854775807", ":", ",", "#"])
    dictionary("python", ["True", "None", "inf", "nan", "\\\\x41", "\\\\u20ac", "e-", "9223372036854775807"])


main()
