"""case_files.py - writes one case as tests/cases/README.md says: plain.pt2, core.pt2, inputs_K and outputs_K.safetensors.

    case_write("tests/cases/mix_01", sums, [(z, w, r), ...], None)

The archives are zipped anew without stack traces, which leaves a tenth of their size. Needs torch 2.9 or newer and safetensors.
"""
import io
import json
import os
import warnings
import zipfile

import torch
import torch.utils._pytree as pytree
from safetensors.torch import save_file

warnings.filterwarnings("ignore")


def stripped(value):
    """JSON without stack traces."""
    if isinstance(value, dict):
        return {key: stripped(item) for key, item in value.items() if key not in ("stack_trace", "nn_module_stack", "source_fn_stack")}
    return [stripped(item) for item in value] if isinstance(value, list) else value


def archive_write(exported, path):
    buffer = io.BytesIO()
    torch.export.save(exported, buffer)
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith(".json"):
                data = json.dumps(stripped(json.loads(data)), separators=(",", ":")).encode()
            if "/sample_inputs/" not in name or name.endswith(".json"):
                info = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
                info.compress_type = zipfile.ZIP_DEFLATED
                new.writestr(info, data)


def packed(values, prefix):
    tensors, metadata = {}, {}
    for index, value in enumerate(pytree.tree_leaves(values, is_leaf=lambda item: item is None)):
        name = f"{prefix}_{index}"
        if not isinstance(value, torch.Tensor):
            metadata[name] = repr(value)
            continue
        value = value.detach().resolve_conj().resolve_neg()
        if value.is_complex():
            metadata[name] = str(value.dtype)
            value = torch.view_as_real(value)
        tensors[name] = value.contiguous().clone()
    return tensors, metadata or None


def cloned(values):
    return pytree.tree_map(lambda value: value.clone() if isinstance(value, torch.Tensor) else value, values)


def module_of(program):
    if isinstance(program, type):
        return program()
    return type(program.__name__, (torch.nn.Module,), {"forward": staticmethod(program)})()


def case_write(folder, program, sets, dims):
    os.makedirs(folder, exist_ok=True)
    module = module_of(program).eval()
    exported = torch.export.export(module, cloned(sets[0]), dynamic_shapes=dims)
    archive_write(exported, f"{folder}/plain.pt2")
    archive_write(exported.run_decompositions(), f"{folder}/core.pt2")
    for index, inputs in enumerate(sets):
        tensors, metadata = packed(inputs, "input")
        save_file(tensors, f"{folder}/inputs_{index}.safetensors", metadata=metadata)
        tensors, metadata = packed(module(*cloned(inputs)), "output")
        save_file(tensors, f"{folder}/outputs_{index}.safetensors", metadata=metadata)
    for name in os.listdir(folder):
        os.chmod(f"{folder}/{name}", 0o644)
