"""An adapter of a made-up peer: it says what the row itself tells it to say, else the right answer.

``peer_says`` and ``peer_raises`` in a row are its answer; ``peer_says_without`` is its answer where it was
asked to leave a field out. Its one argument is its greeting, as JSON.
"""

import json
import sys

greeting = json.loads(sys.argv[1])
if "dies" in greeting:
    sys.exit(greeting["dies"])
print(json.dumps(greeting))
for line in sys.stdin.buffer:
    request = json.loads(line)
    row = request["row"]
    right = row.get("hash", row.get("result"))
    if greeting.get("echoes"):
        print(json.dumps({"id": request["id"], "answer": line.decode("ascii")}))
    elif "peer_raises" in row:
        print(json.dumps({"id": request["id"], "raised": row["peer_raises"], "message": "as planted"}))
    elif not row.get("peer_is_silent"):
        says = row.get("peer_says", right)
        if "without" in request:
            says = row.get("peer_says_without", says)
        print(json.dumps({"id": request["id"], "answer": says}))
