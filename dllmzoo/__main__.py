"""`python -m dllmzoo`: the command line, also under `accelerate launch -m` and `torchrun -m`."""

from __future__ import annotations

from dllmzoo.cli import main

if __name__ == "__main__":
    main()
