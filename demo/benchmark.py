"""The command `python -m demo.benchmark`; see `demo.bench.benchmark`."""

import sys

from demo.bench.benchmark import main

if __name__ == "__main__":
    sys.exit(main())
