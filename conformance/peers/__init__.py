"""Our vectors and fixtures, run through the two other SDKs that a registry offers.

``python -m conformance.peers [VECTORS]`` installs each peer at a pinned version into ``.cache/peers``,
asks it for every row, and counts per peer and per file what was *compared*, what differs by a *known
defect* of the peer, and what is *not in that version*; anything else is a failure. A peer's code is
run, never copied.

- `rows`: what is asked, and the right answer.
- `install`: pinned peers, in a folder of this project's cache.
- `process`: one conversation with a peer's adapter (``adapters/``), JSON lines both ways.
- `known`, `traits`: the table of known defects and absences, and the properties of a row that it names.
- `classify`: one row and its answer become a verdict.
- `report`: the counts, the floors, and the words.
- `run`: puts these together.
"""
