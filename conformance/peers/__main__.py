"""``python -m conformance.peers``."""

from conformance.peers.run import main

if __name__ == "__main__":
    raise SystemExit(main())
