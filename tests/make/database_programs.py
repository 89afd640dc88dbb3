"""database_programs.py - programs in which PyTorch's operator database (tools/coverage) found Phasor wrong, or that it refused.

    python3 database_programs.py tests/cases     ->  tests/cases/fault_*, as tests/cases/README.md says
"""
import sys

import torch

from case_files import case_write

Z = torch.tensor([[1 + 2j, -3 - 4j, 0.5j], [2.5 + 0j, -1j, 700 + 3j]])
INF = float("inf")


def fault_zero_dims(x, z, i):
    """A 0-dim tensor where an axis is named."""
    line, at = x.expand(3), i.expand(1)
    return (
        x.index_add(0, at, z.real.clone()), z.index_copy(0, i, z * 2), x.index_fill(0, at, 4.5), z.index_fill(-1, i, z + 1),
        x.scatter(0, i, 3.0), z.scatter_add(0, i, z), x.scatter(-1, i, x + 1), line.scatter(0, i, x + 2),
        x.clone().scatter_(0, i, 7.0),
    )


def fault_complex_reductions(z, x):
    """Those that order complex numbers by their real part, or square them."""
    norms = torch.nn.functional.rms_norm(z, [3]), torch.nn.functional.rms_norm(z, [2, 3], z - 1, 1e-3)
    return *norms, z.logsumexp(0), z.logsumexp([0, 1], keepdim=True), (z * 1e3).logsumexp(1), torch.complex(x, x * 0).logsumexp(0), x.logsumexp(0)


def fault_norm_statistics(x, y):
    """Mean and 1 / deviation as results: of the operand's dtype when exported for a CPU."""
    return (
        *torch.native_layer_norm(x, [6], None, None, 1e-5), *torch.native_layer_norm(y, [4, 6], None, None, 1e-5),
        *torch.native_group_norm(x, None, None, 2, 4, 6, 2, 1e-5), *torch.native_group_norm(y, None, None, 2, 4, 6, 4, 1e-5),
    )


CASES = [
    (fault_zero_dims, (torch.tensor(1.5), torch.tensor(2 - 1j), torch.tensor(0))),
    (fault_complex_reductions, (Z, torch.tensor([-INF, 2.0, 1.0]))),
    (fault_norm_statistics, (torch.linspace(-2, 3, 48).reshape(2, 4, 6).bfloat16(), torch.linspace(1, -1, 48).reshape(2, 4, 6))),
]

if __name__ == "__main__":
    for program, inputs in CASES:
        if len(sys.argv) < 3 or program.__name__ in sys.argv[2:]:
            case_write(f"{sys.argv[1]}/{program.__name__}", program, [inputs], None)
