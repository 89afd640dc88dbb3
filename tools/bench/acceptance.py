"""acceptance.py - the figures that have a limit, and whether a run reached them. peers.py --acceptance uses it.

    results of peers.py  ->  reached  rope_table_bf16 4x8192: share of the copy 0.981, to reach 0.97
                             missed   rms_rope_bf16 4x8192: share of the copy 0.900, to reach 0.93
                             not measured  rope_table_f32 4x8192: torch.compile, real, static is not there

A line a figure, both numbers on it. A limit is written once, here.
"""

LARGE, LARGER, SMALL, TOKEN = (4, 8192), (8, 16384), (1, 4096), (1, 1)
COMPILED, EAGER = "torch.compile, real, static", "PyTorch eager, complex"

# Program, size, least share of a copy of the same bytes, least ratio to torch.compile's static real form; None: no limit.
SPEEDS = [
    ("rope_table_bf16", LARGE, 0.97, 2.2),
    ("rope_table_bf16", LARGER, 0.97, 2.2),
    ("rope_table_bf16", SMALL, 0.96, None),
    ("rope_table_f32", LARGE, 0.98, 1.0),
    ("rope_table_f32", LARGER, 0.98, 1.0),
    ("rope_table_f32", SMALL, 0.98, 1.0),
    ("rope_f64", LARGE, 0.95, None),
    ("rms_rope_bf16", LARGE, 0.93, None),
    ("rope_d72_bf16", LARGE, 0.90, None),
    ("rope_d42_f32", LARGE, 0.90, None),
    ("rope_bhsd_bf16", LARGE, 0.92, None),
    ("rope_qkv_bf16", LARGE, 0.92, None),
    ("rope_bf16", LARGE, None, None),
    ("rope_bf16", TOKEN, None, None),
]
PLAN = [(name, *size) for name, size, _, _ in SPEEDS]

# Those whose calls and first calls have limits too.
CALLS = [("rope_table_bf16", LARGE), ("rope_table_bf16", LARGER), ("rope_table_bf16", SMALL), ("rope_bf16", TOKEN),
         ("rope_bf16", LARGE)]
FIRSTS = [("rope_table_bf16", LARGE), ("rope_bf16", LARGE)]
OVER_LAUNCH_US, HOST_RATIO = 1.0, 8.0
OVER_COMPILER_MS, PROCESS_MS = 5.0, 1.0
TABLE_SHARE = 0.99  # a table that the program makes: of the share that a given table reaches, noise between runs allowed


def least(value, limit):
    return value >= limit


def most(value, limit):
    return value <= limit


def line(what, value, limit, fine, form="{:.3f}"):
    """Prints the verdict on one figure: True, False, or None where there is none."""
    if value is None or limit is None:
        print(f"not measured  {what}")
        return None
    bound = "at least" if fine is least else "at most"
    word = "reached" if fine(value, limit) else "missed"
    print(f"{word:<8}{what} {form.format(value)}, {bound} {form.format(limit)}")
    return fine(value, limit)


class Judge:
    """Prints a line for each figure and remembers what was missed."""

    def __init__(self, results):
        self.found = {(r["program"], (r["batch"], r["length"])): r for r in results}
        self.reached = self.missed = self.unknown = 0

    def line(self, key, what, value, limit, fine, form="{:.3f}"):
        self.count(line(f"{key[0]} {key[1][0]}x{key[1][1]}: {what}", value, limit, fine, form))

    def count(self, fine):
        self.reached += fine is True
        self.missed += fine is False
        self.unknown += fine is None

    def phasor(self, key):
        return self.found[key]["phasor"] if key in self.found else None

    def peer(self, key, name, figure):
        rows = self.found[key]["rows"] if key in self.found else []
        return next((row.get(figure) for row in rows if row["name"] == name), None)


def median(figures, key):
    return figures[key]["p50"] if figures and figures.get(key) else None


def quotient(a, b):
    return a / b if a and b else None


def judge_speed(judge, key, share, ratio):
    ours = judge.phasor(key)
    if ours and share:
        judge.line(key, "share of the copy", ours["share_of_copy"], share, least)
    if ours and ratio:
        judge.line(key, f"times as fast as {COMPILED}",
                   quotient(judge.peer(key, COMPILED, "device_us"), median(ours, "device_us")), ratio, least)


def judge_call(judge, key):
    ours = judge.phasor(key)
    if not ours:
        return
    host, launch = median(ours, "host_us"), median(ours, "launch_us")
    if ours["kernels"] == 1:
        judge.line(key, "us of a warm call", host, launch and launch + OVER_LAUNCH_US, most, "{:.2f}")
    for name in (COMPILED, EAGER):
        ratio = quotient(judge.peer(key, name, "host_us"), host)
        judge.line(key, f"warm call, times as fast as {name}", ratio, HOST_RATIO, least, "{:.1f}")


def judge_first(judge, key):
    ours = judge.phasor(key)
    if not ours:
        return
    compiler = ours["nvrtc_ms"] and ours["nvrtc_ms"] + OVER_COMPILER_MS
    judge.line(key, "ms of the first call, empty cache", ours["cold_ms"], compiler, most, "{:.2f}")
    process = None if ours.get("process_compiled", 1) else ours["process_ms"]
    judge.line(key, "ms of the first call of a new process, filled cache", process, PROCESS_MS, most, "{:.2f}")


def judge_table(judge):
    """Queries and keys with a table of their own against one tensor with a given table, as shares of their copies."""
    made, given = judge.phasor(("rope_bf16", LARGE)), judge.phasor(("rope_table_bf16", LARGE))
    if made and given:
        limit = given["share_of_copy"] and TABLE_SHARE * given["share_of_copy"]
        what = f"share of the copy, table made in the program (limit: {TABLE_SHARE} of a given one's)"
        judge.line(("rope_bf16", LARGE), what, made["share_of_copy"], limit, least)


def judge(results):
    """Prints all lines; whether nothing was missed."""
    at = Judge(results)
    print()
    for name, size, share, ratio in SPEEDS:
        judge_speed(at, (name, size), share, ratio)
    judge_table(at)
    for key in CALLS:
        judge_call(at, key)
    token = at.phasor(("rope_bf16", TOKEN))
    if token:
        at.line(("rope_bf16", TOKEN), "launches for q and k", token["kernels"], 1, most, "{:d}")
    for key in FIRSTS:
        judge_first(at, key)
    print(f"{at.reached} reached, {at.missed} missed, {at.unknown} not measured")
    return at.missed == 0
