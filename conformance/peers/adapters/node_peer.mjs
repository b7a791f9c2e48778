// Answers rows with the npm peer, `@dudousxd/nestjs-durable-core`, in a process of its own.
//
// Run as `node node_peer.mjs FOLDER`, where FOLDER holds the `node_modules` the peer was installed into. What
// passes between this process and its caller is described in conformance/peers/process.py. Rows are read by
// `JSON.parse`, as this peer reads its keys in service: no number or surrogate is touched before.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const PEER = "@dudousxd/nestjs-durable-core";
const folder = resolve(process.argv[2]);
const core = createRequire(join(folder, "package.json"))(PEER);

const calls = {
  hash: (row) => core.descriptorHash(row.descriptor),
  beat: (row) => core.heartbeatStatus(row.descriptor, { ts: row.ts, status: row.status }),
  negotiate: (row) => core.negotiate(row.local, row.remote, { required: row.required ?? undefined }),
  plan: (row) => core.planDispatch(row.requires, row.workers, row.control_plane, row.token),
  roundTrip: (row) => core.normalizeDescriptor(row.descriptor),
  sanitizeQueueToken: (row) => core.sanitizeQueueToken(...row.args),
  tenantGroup: (row) => core.tenantGroup(...row.args),
};

/** `value` with every key named `field` left out, at any depth. */
function without(value, field) {
  if (Array.isArray(value)) return value.map((item) => without(item, field));
  if (value === null || typeof value !== "object") return value;
  const kept = Object.entries(value).filter(([key]) => key !== field);
  return Object.fromEntries(kept.map(([key, item]) => [key, without(item, field)]));
}

function answer({ id, call, row, without: field }) {
  try {
    return { id, answer: calls[call](field === undefined ? row : without(row, field)) };
  } catch (error) {
    return { id, raised: error.name, message: error.message };
  }
}

const manifest = JSON.parse(readFileSync(join(folder, "node_modules", PEER, "package.json"), "utf8"));
const methods = Object.getOwnPropertyNames(core.WorkflowEngine.prototype);
const out = [{ version: manifest.version, names: [...Object.keys(core), ...methods].sort() }];
// Split on LF alone: `readline` would also break a line at U+2028.
for (const line of readFileSync(0, "utf8").split("\n")) {
  if (line !== "") out.push(answer(JSON.parse(line)));
}
process.stdout.write(out.map((message) => `${JSON.stringify(message)}\n`).join(""));
