// Stories of the helpers `forks` and `namespaces`, as tests of any runner. Each test makes a change that the next one must not see.
"use strict";

const assert = require("node:assert");
const { readFileSync } = require("node:fs");
const steersman = require("steersman");

const OPTIONS = { nodes: 0, controllers: "" };

/** The namespaces of a cluster, by the credentials in its kubeconfig. */
async function namespaces(cluster) {
  const config = readFileSync(cluster.kubeconfig, "utf8");
  const part = (key) => Buffer.from(config.match(new RegExp(`${key}: (\\S+)`))[1], "base64");
  const { request } = require("node:https");
  const answer = await new Promise((resolve, reject) => {
    const options = { ca: part("certificate-authority-data"), cert: part("client-certificate-data"), key: part("client-key-data") };
    request(`${cluster.url}/api/v1/namespaces`, options, resolve).on("error", reject).end();
  });
  const chunks = [];
  for await (const chunk of answer) chunks.push(chunk);
  return JSON.parse(Buffer.concat(chunks)).items.map((item) => item.metadata.name);
}

/** Defines the tests. `runner` has the hooks, unless they are global. */
module.exports = (test, runner) => {
  let prepared;
  const prepare = async (server) => {
    assert.strictEqual(prepared, undefined, "the server is prepared once");
    prepared = await server.namespace("prepared-");
  };
  const cluster = steersman.forks(OPTIONS, prepare, runner);
  const namespace = steersman.namespaces(OPTIONS, undefined, runner);
  const urls = new Set();
  const names = new Set();
  for (const number of [1, 2]) {
    test(`a fork for each test, ${number}`, async () => {
      const found = await namespaces(cluster());
      assert.ok(found.includes(prepared));
      assert.ok(!found.some((name) => name.startsWith("of-a-test-")), "the fork is new");
      await cluster().namespace("of-a-test-");
      urls.add(cluster().url);
      assert.strictEqual(urls.size, number);
    });
    test(`a namespace for each test, ${number}`, async () => {
      const { server, name } = namespace();
      assert.ok((await namespaces(server)).includes(name));
      assert.ok(!names.has(name));
      names.add(name);
    });
  }
};
