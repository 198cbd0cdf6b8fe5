// The npm package with a real server.
//   STEERSMAN=path/to/steersman node control.cjs path/to/scripts/release/npm
"use strict";

const assert = require("node:assert");
const { existsSync } = require("node:fs");
const path = require("node:path");
const { start } = require(path.join(path.resolve(process.argv[2]), "index.js"));

async function stories() {
  const server = await start({ nodes: 1, controllers: "" });
  const namespace = await server.namespace("story-");
  assert.match(namespace, /^story-/);
  const rule = await server.fault({
    match: { verb: "create", resource: "namespaces" },
    fault: { reject: { code: 409, message: "not now" } },
    times: 1,
  });
  await assert.rejects(server.namespace(), /not now/);
  assert.strictEqual(await rule.hits(), 1);
  const requests = await server.requests();
  assert.ok(requests.some((request) => request.resource === "namespaces" && request.status === 409));
  await server.keepBodies();
  await server.namespace("seen-");
  await server.keepBodies(false);
  const seen = (await server.requests()).findLast((request) => request.verb === "create" && request.resource === "namespaces");
  assert.strictEqual(seen.body.metadata.generateName, "seen-");
  assert.match(seen.answer.metadata.name, /^seen-/);
  const view = await server.fault({ match: { resource: "namespaces" }, view: { behind: 1 } });
  await view.remove();
  const prepared = await server.snapshot();
  await server.restore(prepared);
  await assert.rejects(server.restore(prepared + 1), /there is no snapshot/);
  await server.stopTime();
  const before = await server.now();
  await server.advance("1h");
  assert.ok((await server.now()).slice(0, 13) > before.slice(0, 13));
  await server.resumeTime();
  const fork = await server.fork();
  assert.ok(existsSync(fork.kubeconfig));
  await fork.stop();
  assert.ok(!existsSync(fork.kubeconfig));
  await server.stop();
  console.log("done");
}

stories().catch((error) => {
  console.error(error);
  process.exit(1);
});
