#!/usr/bin/env python3
"""operators.py - runs PyTorch's operator database against Phasor and counts (needs torch, safetensors, expecttest).

    tools/coverage/operators.py --out DIR                          every dtype, 6 samples of complex64, 3 of the others
    tools/coverage/operators.py --out DIR --dtype c64 --shard 2/8  a part of it
    tools/coverage/operators.py --out DIR --entry addmm --again    what is named, though it was run before
    tools/coverage/operators.py --out DIR --retry                  again what did not pass, after a change of Phasor
    tools/coverage/operators.py --out DIR --summary                only the tables of what was run

Each sample becomes a small module (tensors are its inputs, everything else is closed over), is exported, saved as it is
("plain") and after run_decompositions() ("core"), and run by `phasor run`. One JSON line an entry and dtype goes to
DIR/shard_I_of_N.jsonl; a run that is interrupted goes on from there. DIR/summary.md has the counts and DIR/KIND.txt what
went wrong; programs of trouble are kept in DIR/programs. Exit 1 when something is wrong, or when an entry that is not in the
baseline does not pass.
"""

import argparse
import collections
import functools
import glob
import json
import os
import shutil
import signal
import sys
import warnings

warnings.simplefilter("ignore")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # the oracle is eager on the CPU

import torch  # noqa: E402
import torch.utils._pytree as pytree  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

import product as judge  # noqa: E402
from product import export  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLES = {"c64": 6, "f32": 3, "bf16": 3, "i64": 3, "bool": 3}
FORMS = ("plain", "core")
NOT_EXPORTABLE, EAGER_FAILS = "not exportable", "eager fails"
# Memory that nobody wrote: only shapes and strides are compared.
UNDEFINED = ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted")
# Unless a stable order is asked for, equal elements may come in any order.
UNORDERED = ("sort", "argsort", "topk", "kthvalue", "mode", "median", "nanmedian")


# -- samples -----------------------------------------------------------------------------------------------------------


class Slot:
    """The place of a tensor among closed-over arguments."""

    def __init__(self, index):
        self.index = index


def dense_order(tensor):
    """The permutation that makes a transposed tensor contiguous, or None."""
    order = sorted(range(tensor.dim()), key=lambda axis: (-tensor.stride(axis), axis))
    return order if tensor.dim() > 1 and tensor.permute(order).is_contiguous() else None


class Sample(torch.nn.Module):
    """function(*args, **kwargs) as a module of its tensors; a transposed one comes in contiguous and is transposed inside,
    because files hold contiguous tensors."""

    def __init__(self, function, args, kwargs, transposed):
        super().__init__()
        self.function, self.inputs, self.orders = function, [], []
        leaves, self.structure = pytree.tree_flatten((args, kwargs))
        self.leaves = [self.slot_make(leaf, transposed) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

    def slot_make(self, tensor, transposed):
        tensor = tensor.detach().resolve_conj().resolve_neg()
        order = None if tensor.layout != torch.strided or tensor.is_contiguous() else dense_order(tensor)
        if transposed and tensor.layout == torch.strided and tensor.dim() > 1:
            order = list(reversed(range(tensor.dim())))
        packed = tensor.permute(order) if order else tensor
        self.inputs.append(packed.contiguous().clone() if packed.layout == torch.strided else packed)
        self.orders.append([order.index(axis) for axis in range(len(order))] if order else None)
        return Slot(len(self.inputs) - 1)

    def forward(self, *inputs):
        tensors = [x.permute(order) if order else x for x, order in zip(inputs, self.orders)]
        leaves = [tensors[leaf.index] if isinstance(leaf, Slot) else leaf for leaf in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.structure)
        return self.function(*args, **kwargs)


def entry_name(entry):
    return entry.formatted_name


def samples_of(entry, dtype, count, options):
    function = entry.inplace_variant if options.inplace else entry.op
    torch.manual_seed(0)
    given = []
    for sample in entry.sample_inputs("cpu", dtype, requires_grad=False):
        given.append(sample)
        if len(given) == (count if not options.spread else 64):
            break
    if options.spread and len(given) > count:
        given = [given[i * len(given) // count] for i in range(count)]
    for sample in given:
        args = (sample.input, *sample.args)
        yield Sample(function, args, sample.kwargs, options.transposed)


# -- one sample --------------------------------------------------------------------------------------------------------


class Overlong(Exception):
    pass


def alarm_ring(*_):
    raise Overlong("PyTorch took over 60 s")


def first_line(error):
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"


def eager_run(module, inputs):
    with torch.no_grad():
        outputs = module(*export.values_clone(inputs))
    leaves = pytree.tree_leaves(outputs, is_leaf=lambda value: value is None)
    if any(isinstance(leaf, torch.Tensor) and leaf.layout != torch.strided for leaf in leaves):
        raise TypeError("a result that is not strided")
    return outputs, leaves


def wide_agrees(results, outputs, module, inputs):
    try:
        return judge.accurate(results, outputs, eager_run(module, [judge.widened(x) for x in inputs])[1])
    except Exception:  # not every operator has float64
        return False


def oracle_ask(verdict, product, folder, form, program, sample, outputs, unordered):
    """A second opinion on a difference: the exported program as PyTorch runs it, and a run in float64."""
    try:
        _, own = eager_run(program.module(), sample.inputs)
    except Exception:  # PyTorch can fail on programs that it exported: then there is no second opinion
        own = None
    if verdict.kind == judge.WRONG_STRIDES and own is not None:
        if product.run(folder, form, own, undefined=True).kind not in (judge.WRONG_STRIDES, judge.WRONG_SHAPE):
            return judge.Verdict(judge.EXCEPTED_STRIDES, f"PyTorch's {form} program has them: {verdict.detail}")
    if verdict.kind not in (judge.WRONG_VALUE, judge.WRONG_SHAPE):
        return verdict
    results = product.outputs(folder, form)
    if unordered and judge.ties_differ_only(results, outputs, sample.inputs[0]):
        return judge.Verdict(judge.MATCH, "equal elements in another order")
    if wide_agrees(results, outputs, sample, sample.inputs):
        return judge.Verdict(judge.MATCH, "against float64")
    if own is not None:
        export.values_write(f"{folder}/outputs_0.safetensors", "output", own)
        if product.run(folder, form, own).kind == judge.MATCH or wide_agrees(results, own, program.module(), sample.inputs):
            return judge.Verdict(judge.EXCEPTED_VALUE, f"PyTorch's {form} program gives them: {verdict.detail}")
    return verdict


def sample_run(sample, folder, product, table, name):
    """{"plain": Verdict, "core": Verdict}"""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    try:
        tree, outputs = eager_run(sample, sample.inputs)
        export.values_write(f"{folder}/inputs_0.safetensors", "input", sample.inputs)
        export.values_write(f"{folder}/outputs_0.safetensors", "output", tree)
    except Overlong:
        raise
    except Exception as error:
        return {form: judge.Verdict(EAGER_FAILS, first_line(error)) for form in FORMS}
    verdicts, program = {}, None
    for form in FORMS:
        try:
            if form == "plain":
                program = torch.export.export(sample, export.values_clone(tuple(sample.inputs)), strict=False)
            else:
                program = program.run_decompositions(table)
            torch.export.save(program, f"{folder}/{form}.pt2")
        except Overlong:
            raise
        except Exception as error:
            verdicts.update({rest: judge.Verdict(NOT_EXPORTABLE, first_line(error)) for rest in FORMS if rest not in verdicts})
            break
        export.values_write(f"{folder}/outputs_0.safetensors", "output", tree)
        verdict = product.run(folder, form, outputs, name in UNDEFINED)
        verdicts[form] = oracle_ask(verdict, product, folder, form, program, sample, outputs, name in UNORDERED)
    export.values_write(f"{folder}/outputs_0.safetensors", "output", tree)
    return verdicts


def entry_run(entry, name, options, product, table):
    """The record of one entry and dtype."""
    records, scratch = [], f"{options.out}/scratch_{os.getpid()}"
    kept = 0
    try:
        for index, sample in enumerate(samples_of(entry, export.DTYPES[name], options.samples or SAMPLES[name], options)):
            signal.alarm(60)
            verdicts = sample_run(sample, scratch, product, table, entry.name)
            signal.alarm(0)
            for form, verdict in verdicts.items():
                records.append({"sample": index, "form": form, **{k: v for k, v in vars(verdict).items() if v}})
            if kept < 2 and any(verdict.kind in judge.TROUBLES for verdict in verdicts.values()):
                kept += 1
                shutil.copytree(scratch, f"{options.out}/programs/{entry_name(entry)}_{name}_{index}", dirs_exist_ok=True)
    except Exception as error:  # the database itself fails for some entries
        records.append({"sample": len(records), "form": "plain", "kind": EAGER_FAILS, "detail": first_line(error)})
    finally:
        signal.alarm(0)
        shutil.rmtree(scratch, ignore_errors=True)
    return {"entry": entry_name(entry), "dtype": name, "samples": records}


# -- all of them -------------------------------------------------------------------------------------------------------


def records_read(folder):
    """({(entry, dtype): record}, {(entry, dtype): times begun and not ended}); the last line of a key holds."""
    done, begun = {}, collections.Counter()
    for path in sorted(glob.glob(f"{folder}/*.jsonl"), key=os.path.getmtime):
        for line in open(path):
            try:
                record = json.loads(line)
            except ValueError:  # cut off by a kill
                continue
            key = record["entry"], record["dtype"]
            if "samples" in record:
                done[key] = record
                begun[key] = 0
            else:
                begun[key] += 1
    return done, begun


def entries_run(options, product):
    shard, shards = map(int, options.shard.split("/"))
    done, begun = records_read(options.out)
    table = torch.export.default_decompositions()
    out = open(f"{options.out}/shard_{shard}_of_{shards}.jsonl", "a", buffering=1)
    entries = sorted(op_db, key=entry_name)
    work = [(entry, name) for name in options.dtypes for entry in entries if export.DTYPES[name] in entry.dtypes]
    for place, (entry, name) in enumerate(work):
        key = entry_name(entry), name
        if place % shards != shard - 1 or (options.entry and entry.name not in options.entry and key[0] not in options.entry):
            continue
        if options.inplace and entry.inplace_variant is None:
            continue
        ran = key in done or begun[key] > 1  # begun twice and never ended: PyTorch died of it
        if ran and not options.again and not (options.retry and key in done and not passes(done[key])):
            continue
        out.write(json.dumps({"entry": key[0], "dtype": name}) + "\n")
        record = entry_run(entry, name, options, product, table)
        out.write(json.dumps(record) + "\n")
        kinds = collections.Counter(sample["kind"] for sample in record["samples"])
        print(f"{place + 1}/{len(work)} {name} {key[0]}: " + ", ".join(f"{n} {kind}" for kind, n in kinds.items()), flush=True)


# -- what came out -----------------------------------------------------------------------------------------------------


def passes(record):
    """Every sample that PyTorch can export passes, and there is one."""
    kinds = [s["kind"] for s in record["samples"] if s["kind"] not in (NOT_EXPORTABLE, EAGER_FAILS)]
    return bool(kinds) and all(kind in judge.PASSES for kind in kinds)


def exportable(record):
    return any(s["kind"] not in (NOT_EXPORTABLE, EAGER_FAILS) for s in record["samples"])


def table_make(records):
    kinds = [k for k in judge.KINDS + (NOT_EXPORTABLE, EAGER_FAILS)]
    lines = ["| dtype | entries | exportable | pass every sample | runs | " + " | ".join(kinds) + " |"]
    lines.append("| --- " * (5 + len(kinds)) + "|")
    for name in SAMPLES:
        own = [record for record in records if record["dtype"] == name]
        if not own:
            continue
        count = collections.Counter(s["kind"] for record in own for s in record["samples"])
        figures = [len(own), sum(map(exportable, own)), sum(map(passes, own)), sum(count.values()), *(count[kind] for kind in kinds)]
        lines.append(f"| {name} | " + " | ".join(map(str, figures)) + " |")
    return "\n".join(lines) + "\n"


def kinds_write(folder, records):
    """DIR/wrong_value.txt and so on: one line a run"""
    lines = collections.defaultdict(list)
    for record in records:
        for s in record["samples"]:
            if s["kind"] != judge.MATCH:
                lines[s["kind"]].append(f"{record['entry']} {record['dtype']} {s['sample']} {s['form']}: {s.get('detail', '')}")
    for kind in judge.KINDS + (NOT_EXPORTABLE, EAGER_FAILS):
        path = f"{folder}/{kind.replace(' ', '_')}.txt"
        if lines[kind]:
            with open(path, "w") as out:
                out.write("\n".join(lines[kind]) + "\n")
        elif os.path.exists(path):
            os.remove(path)


def refusals_table(records):
    """One line for each operator and reason, with the entries that need it."""
    entries = collections.defaultdict(set)
    for record in records:
        for s in record["samples"]:
            for target, reason in s.get("refused", []):
                entries[target, reason].add(record["entry"])
    rows = sorted(entries.items(), key=lambda row: (row[0][1], row[0][0]))
    lines = ["| operator | reason | entries |", "| --- | --- | --- |"]
    return "\n".join(lines + [f"| `{t}` | {reason} | {', '.join(sorted(names))} |" for (t, reason), names in rows]) + "\n"


def summary_write(options):
    """0, or 1 for anything wrong and for an entry outside the baseline that does not pass"""
    done, _ = records_read(options.out)
    records = [done[key] for key in sorted(done) if key[1] in options.dtypes]
    kinds_write(options.out, records)
    table = table_make(records)
    with open(f"{options.out}/summary.md", "w") as out:
        out.write(f"# PyTorch's operator database\n{table}\n## Refused\n{refusals_table(records)}")
    print(table)
    open_entries = collections.defaultdict(list)
    for record in records:
        if exportable(record) and not passes(record):
            open_entries[record["dtype"]].append(record["entry"])
    if options.baseline_write:
        with open(options.baseline, "w") as out:
            json.dump(open_entries, out, indent=1)
            out.write("\n")
    with open(options.baseline) as file:
        known = json.load(file)
    dropped = [f"{name} {entry}" for name, entries in open_entries.items() for entry in entries if entry not in known.get(name, [])]
    wrong = [r["entry"] for r in records if any(s["kind"] in judge.TROUBLES for s in r["samples"])]
    if dropped:
        print(f"not in {options.baseline} and do not pass: {', '.join(dropped)}")
    if wrong:
        print(f"with something wrong: {', '.join(sorted(set(wrong)))}")
    return 1 if dropped or wrong else 0


def options_read():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, metavar="DIR")
    parser.add_argument("--phasor", default=f"{HERE}/../../build/dev/phasor", metavar="COMMAND")
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda[:N]; PHASOR_DRIVER names another driver")
    parser.add_argument("--dtype", action="append", dest="dtypes", choices=SAMPLES, help="may be given often; default: all")
    parser.add_argument("--samples", type=int, help="instead of 6 for c64 and 3 for the others")
    parser.add_argument("--spread", action="store_true", help="samples from all over an entry's list, not its first ones")
    parser.add_argument("--transposed", action="store_true", help="every input with two or more dims is a transposed view")
    parser.add_argument("--inplace", action="store_true", help="the in-place spelling of each entry that has one")
    parser.add_argument("--entry", action="append", help="only entries of this name")
    parser.add_argument("--again", action="store_true", help="also what was run before")
    parser.add_argument("--retry", action="store_true", help="also what was run before and did not pass")
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="part I of N")
    parser.add_argument("--seconds", type=float, default=10, help="time limit of one run of phasor")
    parser.add_argument("--baseline", default=f"{HERE}/operators.json", help="entries that are known not to pass")
    parser.add_argument("--baseline-write", action="store_true", help="makes the baseline of what was run")
    parser.add_argument("--summary", action="store_true", help="runs nothing")
    options = parser.parse_args()
    options.dtypes = options.dtypes or list(SAMPLES)
    return options


def decompositions_hasten():
    """run_decompositions() collects the same list of operators for each program, half of its time: collected once."""
    module = torch.export.exported_program
    if hasattr(module, "_collect_all_valid_cia_ops"):
        module._collect_all_valid_cia_ops = functools.lru_cache(None)(module._collect_all_valid_cia_ops)


def main():
    options = options_read()
    os.makedirs(f"{options.out}/programs", exist_ok=True)
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, alarm_ring)
    decompositions_hasten()
    if not options.summary:
        entries_run(options, judge.Product(options.phasor, options.device, options.seconds))
    return summary_write(options)


if __name__ == "__main__":
    sys.exit(main())
