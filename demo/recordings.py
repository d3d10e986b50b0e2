"""The command `python -m demo.recordings`; see `demo.screen.recordings`."""

from demo.screen.recordings import main

if __name__ == "__main__":
    main()
