"""conjugated_program.py - the program of cases/fault_conjugated_buffer: buffers that are conjugated and negated by a bit.

    tools/export.py tests/make/conjugated_program.py:Conjugated --input x=f32[3,4,16] --out tests/cases/fault_conjugated_buffer

tools/export.py writes their values out and says so; saved as they are, PyTorch 2.15 drops the bits, and the file's own
outputs are no longer those of the module.
"""

import torch


class Conjugated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        z = torch.polar(torch.ones(4, 8), torch.arange(32).reshape(4, 8) * 0.1)
        self.register_buffer("f", z.conj())
        self.register_buffer("g", z.conj().imag)

    def forward(self, x):
        c = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        return torch.view_as_real(c * self.f).flatten(-2), x[..., ::2] + self.g
