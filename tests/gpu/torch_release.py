"""A process with real tensors on the first device that it sees: it is told when to give back what PyTorch has cached.

It says one line of JSON at its start and after each line that it reads: a checksum of its tensor, and what came of it.
"""

from __future__ import annotations

import json
import sys
import zlib

import torch

from jupyter_gpu_guard.kernel.release_snippet import release
from jupyter_gpu_guard.kernel.variables import held_by_the_last_error

KEPT, CACHED = 2**30, 3 * 2**30  # bytes


def main() -> None:
    """Hold, cache, and obey."""
    kept = torch.zeros(KEPT, dtype=torch.uint8, device="cuda").random_(0, 256)
    cached = torch.ones(CACHED, dtype=torch.uint8, device="cuda")
    del cached
    told: list[dict[str, object]] = []
    while True:
        checksum = zlib.crc32(kept.cpu().numpy().tobytes())
        print(json.dumps({"checksum": checksum, "told": told, "by_error": held_by_the_last_error()}), flush=True)
        if not sys.stdin.readline():
            return
        told = release()


if __name__ == "__main__":
    main()
