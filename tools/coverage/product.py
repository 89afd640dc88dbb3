"""product.py - runs one exported program with the command `phasor` and says how it went.

    in:  a program (torch.export.ExportedProgram), its inputs, eager's outputs
    out: Verdict("match") or Verdict("wrong value", "output_0: 3 of 16 numbers differ, ...")

What stands between the two is the product as its users have it: files, one process, its exit code and its JSON.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field

import safetensors.torch
import torch
import torch.utils._pytree as pytree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import export  # noqa: E402  (tools/export.py: inputs and outputs as tests/cases has them)

TEXT_DTYPES = {dtype: name for name, dtype in export.DTYPES.items()}

# What a run can end in, the good ones first; "excepted" ones are no fault of the product and are listed with their reason.
MATCH, EXCEPTED_STRIDES, EXCEPTED_VALUE = "match", "excepted strides", "excepted value"
REFUSED, CPU_ONLY = "refused", "refused by check"
WRONG_VALUE, WRONG_SHAPE, WRONG_STRIDES = "wrong value", "wrong shape", "wrong strides"
BAD_FILE, BAD_INPUTS, OTHER_EXIT, CRASH, SLOW = "exit 4", "exit 5", "other exit", "crash", "time limit"
PASSES = (MATCH, EXCEPTED_STRIDES, EXCEPTED_VALUE)
TROUBLES = (WRONG_VALUE, WRONG_SHAPE, WRONG_STRIDES, BAD_FILE, BAD_INPUTS, OTHER_EXIT, CRASH, SLOW)
KINDS = PASSES + (REFUSED, CPU_ONLY) + TROUBLES


@dataclass
class Verdict:
    kind: str
    detail: str = ""
    refused: list = field(default_factory=list)  # [operator, reason] pairs


@dataclass
class Product:
    command: str
    device: str = "cpu"
    seconds: float = 10

    def call(self, *arguments):
        """(exit code or None after the time limit, stdout, stderr)"""
        try:
            done = subprocess.run([self.command, *arguments], capture_output=True, timeout=self.seconds, text=True, errors="replace")
        except subprocess.TimeoutExpired:
            return None, "", ""
        return done.returncode, done.stdout, done.stderr

    def where(self):
        """The CPU device compiles nothing: it needs no cache."""
        return ["--device", self.device, *(["--cache", ":memory:"] if self.device == "cpu" else [])]

    def refusals(self, path):
        code, text, _ = self.call("check", path, "--json", "--cache", ":memory:")
        if code not in (0, 3) or not text:
            return []
        pairs = {(refusal["target"], refusal["reason"]) for refusal in json.loads(text)["refused"]}
        return sorted([list(pair) for pair in pairs])

    def run(self, folder, form, outputs, undefined=False):
        """Runs folder/FORM.pt2 with folder's inputs_0 against its outputs_0; `outputs` are eager's tensors themselves."""
        path = f"{folder}/{form}.pt2"
        arguments = ["run", path, "--inputs", f"{folder}/inputs_0.safetensors", *self.where(), "--json"]
        code, text, errors = self.call(*arguments, "--expect", f"{folder}/outputs_0.safetensors")
        said = last_line(errors)
        if code is None:
            return Verdict(SLOW, f"over {self.seconds} s")
        if code < 0:
            return Verdict(CRASH, f"signal {-code}: {said}")
        if code == 3:
            return Verdict(REFUSED, said, self.refusals(path))
        if code not in (0, 1):
            return Verdict({4: BAD_FILE, 5: BAD_INPUTS}.get(code, OTHER_EXIT), f"exit {code}: {said}")
        try:
            results = json.loads(text)["outputs"]
        except (ValueError, KeyError):
            return Verdict(OTHER_EXIT, f"exit {code} without JSON: {said}")
        wrong = shapes_compare(results, outputs) or (code == 1 and not undefined and Verdict(WRONG_VALUE, said))
        wrong = wrong or strides_compare(results, outputs)
        if wrong:
            return wrong
        refused = self.refusals(path)
        return Verdict(CPU_ONLY, refused[0][1], refused) if refused else Verdict(MATCH)

    def outputs(self, folder, form):
        """The tensors that the product returns, as files have them (a complex one as its real view)."""
        path = f"{folder}/results.safetensors"
        self.call("run", f"{folder}/{form}.pt2", "--inputs", f"{folder}/inputs_0.safetensors", *self.where(), "--outputs", path)
        return safetensors.torch.load_file(path) if os.path.exists(path) else {}


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:400] if lines else ""


# -- comparing ---------------------------------------------------------------------------------------------------------


def shapes_compare(results, outputs):
    if len(results) != len(outputs):
        return Verdict(WRONG_SHAPE, f"{len(results)} outputs, expected {len(outputs)}")
    for i, (result, output) in enumerate(zip(results, outputs)):
        if not isinstance(output, torch.Tensor):
            continue
        have = (result.get("dtype"), result.get("shape"))
        expected = (TEXT_DTYPES.get(output.dtype, str(output.dtype)), list(output.shape))
        if have != expected:
            return Verdict(WRONG_SHAPE, f"output_{i}: {have[0]}{have[1]}, expected {expected[0]}{expected[1]}")
    return None


def strides_differ(shape, strides, expected):
    """Strides of dims of size 1, and those of a tensor without elements, lead nowhere."""
    return 0 not in shape and any(size > 1 and a != b for size, a, b in zip(shape, strides, expected))


def strides_compare(results, outputs):
    for i, (result, output) in enumerate(zip(results, outputs)):
        if isinstance(output, torch.Tensor) and strides_differ(output.shape, result["strides"], output.stride()):
            return Verdict(WRONG_STRIDES, f"output_{i} {list(output.shape)}: {result['strides']}, expected {list(output.stride())}")
    return None


def real_view(tensor):
    tensor = tensor.detach().resolve_conj().resolve_neg()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def widened(value):
    """f32 -> f64, c64 -> c128, in arguments of any structure"""
    wide = {torch.float32: torch.float64, torch.bfloat16: torch.float64, torch.float16: torch.float64, torch.complex64: torch.complex128}
    return pytree.tree_map(lambda v: v.to(wide[v.dtype]) if isinstance(v, torch.Tensor) and v.dtype in wide else v, value)


def ties_differ_only(results, outputs, x):
    """Equal elements may come in any order: the last output, their places, may name others that hold the same values."""
    for i, output in enumerate(outputs):
        result = results.get(f"output_{i}")
        if result is None or result.shape != output.shape:
            return False
        if i < len(outputs) - 1 or x.dim() != output.dim():
            if not torch.equal(result.nan_to_num(7), real_view(output).nan_to_num(7)):
                return False
        elif not any(
            torch.equal(x.gather(axis, result).nan_to_num(7), x.gather(axis, output).nan_to_num(7))
            and (result.sort(axis).values.diff(dim=axis) > 0).all()
            for axis in range(max(x.dim(), 1))
            if all(o <= size for d, (o, size) in enumerate(zip(output.shape, x.shape)) if d != axis) and int(result.max()) < x.shape[axis]
        ):
            return False
    return True


def accurate(results, outputs, references):
    """No element of the product's is further from a run in float64 than twice eager's worst, or the dtype's tolerance."""
    relative = {torch.float32: 1.3e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}
    for i, (output, reference) in enumerate(zip(outputs, references)):
        if not isinstance(output, torch.Tensor):
            continue
        output, reference, result = real_view(output), real_view(reference), results.get(f"output_{i}")
        if result is None or result.shape != output.shape:
            return False
        if output.dtype not in relative:
            if not torch.equal(result, output):
                return False
            continue
        output, result, reference = output.double(), result.double(), reference.double()
        finite = reference.isfinite() & output.isfinite()
        if not torch.equal(result[~finite].nan_to_num(7), output[~finite].nan_to_num(7)):
            return False
        if not finite.any():
            continue
        output, result, reference = output[finite], result[finite], reference[finite]
        worst = (output - reference).abs().max()
        scale = relative[real_view(outputs[i]).dtype]
        if not ((result - reference).abs() <= 2 * worst + 1e-5 + scale * reference.abs()).all():
            return False
    return True
