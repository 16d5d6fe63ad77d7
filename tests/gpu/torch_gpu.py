"""The same as cuda.py, by PyTorch: for what must hold in a kernel as people have it."""

from __future__ import annotations

import sys
import zlib

import torch

from .cuda import CudaError, serve

_PIECE = 2**26  # bytes


class TorchGpu:
    """What one tensor holds, on a device by its name for PyTorch."""

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)
        self._held = torch.zeros(0, dtype=torch.uint8, device=self._device)

    def hold(self, amount: int) -> None:
        """Hold so many bytes, all of them written to."""
        self._held = torch.zeros(0, dtype=torch.uint8, device=self._device)
        self._held = torch.ones(amount, dtype=torch.uint8, device=self._device)

    def spin(self) -> None:
        """Compute for a few milliseconds."""
        square = torch.ones(2048, 2048, device=self._device)
        (square @ square).sum().item()

    def mark(self) -> None:
        """Fill what is held with random bytes."""
        self._held.random_(0, 256)

    def checksum(self) -> int:
        """A checksum of all that is held."""
        found = 0
        for piece in self._held.split(_PIECE):
            found = zlib.crc32(piece.cpu().numpy().tobytes(), found)
        return found


if __name__ == "__main__":
    try:
        its = TorchGpu(f"cuda:{sys.argv[1]}" if sys.argv[1].isdigit() else sys.argv[1])
    except (RuntimeError, AssertionError, CudaError) as refusal:
        print(str(refusal).splitlines()[0], flush=True)
    else:
        print("done", flush=True)
        serve(its)
