"""Answers rows with the Python peer, `durable-worker`, in a process that sees only that peer.

Run as ``python -I -S python_peer.py SITE``, where SITE is the folder the peer was installed into. What
passes between this process and its caller is described in ``conformance/peers/process.py``. Rows are read
by Python's own `json`, as this peer reads its keys in service: no number or surrogate is touched before.
"""

import importlib
import json
import sys
from typing import Any


def main(site: str) -> None:
    """Introduce the peer, then answer one request a line until the input ends."""
    sys.path.insert(0, site)
    # The two modules of the peer that hold the contract.
    handshake = importlib.import_module("durable_worker.handshake")
    runner = importlib.import_module("durable_worker.redis_runner")

    def round_trip(raw: Any) -> Any:
        return handshake.WorkerDescriptor.from_wire(raw).to_wire()

    def negotiate(row: Any) -> Any:
        result = handshake.negotiate(row["local"], row["remote"], required=row["required"])
        # The contract's result carries both sides after defaulting; this peer defaults them elsewhere.
        return result | {side: round_trip(row[side]) for side in ("local", "remote")}

    def tenant_group(row: Any) -> Any:
        group, tenant = (*row["args"], None)[:2]
        return runner._tenant_group(group, tenant)  # noqa: SLF001 - the peer has no public name for it

    calls = {
        "hash": lambda row: handshake.descriptor_hash(row["descriptor"]),
        "beat": lambda row: handshake.heartbeat_status(row["descriptor"], ts=row["ts"], status=row["status"]),
        "negotiate": negotiate,
        "roundTrip": lambda row: round_trip(row["descriptor"]),
        "sanitizeQueueToken": lambda row: runner.sanitize_queue_token(*row["args"]),
        "tenantGroup": tenant_group,
    }
    version = importlib.import_module("durable_worker").__version__
    say(version=version, names=sorted({*vars(handshake), *vars(runner)}))
    for line in sys.stdin.buffer:
        request = json.loads(line)
        try:
            row = without(request["row"], request.get("without"))
            say(id=request["id"], answer=calls[request["call"]](row))
        except Exception as error:  # noqa: BLE001 - whatever the peer raises is its answer
            say(id=request["id"], raised=type(error).__name__, message=str(error))


def without(value: Any, field: str | None) -> Any:
    """`value` with every key named `field` left out, at any depth."""
    if isinstance(value, dict):
        return {key: without(item, field) for key, item in value.items() if key != field}
    if isinstance(value, list):
        return [without(item, field) for item in value]
    return value


def say(**message: Any) -> None:
    """Write one message, in 7-bit ASCII: no encoding of a pipe can change it."""
    sys.stdout.write(json.dumps(message) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
