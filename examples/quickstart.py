"""A quick start to copy: the one module that web, CPU and GPU processes share.

A worker that claims nothing:

    dramatiq quickstart

Send it something that it can run and something that it can't, and ask what is blocked:

    python quickstart.py

A worker with a GPU; the blocked message runs at once, and nobody sends it again:

    DRAMATIQ_HANDSHAKE_CAPABILITIES=gpu dramatiq quickstart
"""

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from dramatiq_handshake import HandshakeMiddleware, get_engine

broker = RedisBroker(url=os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0"))
broker.add_middleware(HandshakeMiddleware())
dramatiq.set_broker(broker)


@dramatiq.actor
def greet(name: str) -> None:
    print(f"hello, {name}", flush=True)


@dramatiq.actor(queue_name="ml", requires=["gpu"], version="2", origin="vision")
def train(dataset_id: int) -> None:
    print(f"training on dataset {dataset_id}", flush=True)


def main() -> None:
    greet.send("Ada")
    train.send(42)

    engine = get_engine(broker)
    print(engine.fleet())
    for message in engine.blocked():
        print(f"{message.actor}({message.message_id}) is {message.reason}")
        print(f"  nearest: {message.nearest}")
        print(f"  kept in {message.place} for {message.age_ms} ms")
    for workflow in engine.workflow_directory().workflows:
        print(f"{workflow.key} on {', '.join(workflow.groups)}, {workflow.evidence}")


if __name__ == "__main__":
    main()
