import assert from "node:assert/strict";
import { test } from "node:test";

import { ask, base, command, lines, page, question, source, title, verdict } from "../src/why.mjs";

const pod = { kind: "Pod", apiVersion: "v1", namespace: "shop", name: "web-1" };
const deployment = { kind: "Deployment", apiVersion: "apps/v1", namespace: "shop", name: "web" };
const node = { kind: "Node", apiVersion: "v1", name: "a/b" };
const ORIGIN = "https://headlamp.example.com";
const report = {
  stuck: true, absent: false, leader: "host_1",
  answers: [{
    object: deployment, state: "rolls out", reasons: [{ code: "RolloutWindow", role: "fact", message: "no further step" }],
    waitsFor: [{ object: pod, state: "is Pending", reasons: [{ code: "ImagePull", role: "cause", message: "no such image", who: "author of the image" }] }],
  }],
};

test("an address may have a path, and must be one of the web", () => {
  const cases = [
    ["http://127.0.0.1:8042/ui/", "http://127.0.0.1:8042"], [" http://localhost:1 ", "http://localhost:1"],
    ["javascript:alert(1)", ""], ["127.0.0.1:8042", ""], ["", ""], [undefined, ""],
  ];
  for (const [text, expected] of cases) assert.equal(base(text), expected, text);
});

test("paths have kind and group, namespace and name", () => {
  assert.equal(question("http://h:1/ui/", deployment), "http://h:1/debug/ui/stuck/deployment.apps/shop/web");
  assert.equal(question("http://h:1", node), "http://h:1/debug/ui/stuck/node/a%2Fb");
  assert.equal(page("http://h:1", pod), "http://h:1/ui/#/why/pod/shop/web-1");
});

test("the chain goes from the object down to the cause", () => {
  assert.deepEqual(lines(report.answers[0]).map((line) => [line.depth, title(line.object), line.reasons.length]),
    [[0, "Deployment shop/web", 1], [1, "Pod shop/web-1", 1]]);
  assert.equal(verdict(report), "no such image");
  assert.equal(verdict({ ...report, stuck: false }), "Nothing here needs a person.");
  assert.equal(verdict({ ...report, answers: [] }), "Nothing is known about this object.");
});

test("an answer tells its source", () => {
  assert.equal(source(report), "Answer of the leader, host_1");
  assert.equal(source({ ...report, leader: "", withoutLeader: "no Lease" }), "Answer from API objects alone: no Lease");
  assert.equal(source({ ...report, leader: "" }), "Answer from API objects alone");
});

const answers = (status, body) => async (url, options) => {
  assert.equal(options.credentials, "omit");
  return { ok: status < 400, status, text: async () => body };
};

test("a report comes through, and a refusal in its own words", async () => {
  assert.deepEqual(await ask(answers(200, JSON.stringify(report)), "http://h:1", pod, ORIGIN), report);
  await assert.rejects(ask(answers(404, '{"error": "pods \\"web-1\\" not found"}'), "http://h:1", pod, ORIGIN), /^Error: pods "web-1" not found$/);
  await assert.rejects(ask(answers(200, "<html>"), "http://h:1", pod, ORIGIN), /is not steersman ui/);
});

test("without an answer, the command that helps is told", async () => {
  const nothing = async () => { throw new TypeError("Failed to fetch"); };
  await assert.rejects(ask(nothing, "http://127.0.0.1:9000/ui/", pod, ORIGIN),
    /127\.0\.0\.1:9000 answers this page. Start it: steersman ui --port 9000 --allow-origin https:\/\/headlamp\.example\.com$/);
  assert.equal(command("", ORIGIN), "steersman ui --port 8042 --allow-origin https://headlamp.example.com");
  const aborted = AbortSignal.abort();
  await assert.rejects(ask(nothing, "http://h:1", pod, ORIGIN, aborted), /Failed to fetch/);
});
