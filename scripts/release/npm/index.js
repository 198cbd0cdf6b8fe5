"use strict";

const { spawn } = require("node:child_process");
const { once } = require("node:events");
const { createInterface } = require("node:readline");
const { path } = require("./program.js");

/** A rule that makes requests or watches fail. */
class Fault {
  #ask;
  #id;
  constructor(ask, id) {
    this.#ask = ask;
    this.#id = id;
  }
  /** The number of requests or events to which the rule has applied. */
  async hits() {
    return (await this.#ask("GET", `/faults/${this.#id}`)).hits;
  }
  /** Ends the rule. */
  async remove() {
    await this.#ask("DELETE", `/faults/${this.#id}`);
  }
}

/** A cluster with its URL, and the path of a kubeconfig of an administrator. */
class Cluster {
  #ask;
  #number;
  constructor(ask, number, url, kubeconfig) {
    this.#ask = ask;
    this.#number = number;
    this.url = url;
    this.kubeconfig = kubeconfig;
  }
  #of(at) {
    return `${at}?cluster=${this.#number}`;
  }
  /** Creates a namespace with a name of its own, and returns the name. */
  async namespace(prefix = "test-") {
    return (await this.#ask("POST", this.#of("/namespaces"), { prefix })).namespace;
  }
  /** Adds a rule: `{ match, fault | event | view, times }`, as docs/control.md describes. */
  async fault(rule) {
    return new Fault(this.#ask, (await this.#ask("POST", this.#of("/faults"), rule)).id);
  }
  /** Lets open watches of a resource `stall`, `resume`, or `break`. */
  async watches(plural, action) {
    await this.#ask("POST", this.#of(`/watches/${encodeURIComponent(plural)}/${action}`));
  }
  /** The latest requests, oldest first. */
  async requests() {
    return (await this.#ask("GET", this.#of("/requests"))).requests;
  }
  /** Whether further requests are listed with their bodies: `contentType`, `body` and `answer`. */
  async keepBodies(kept = true) {
    await this.#ask("POST", this.#of("/requests"), { bodies: kept });
  }
  /** Empties the list of requests. */
  async clearRequests() {
    await this.#ask("DELETE", this.#of("/requests"));
  }
  /** The objects as they are now, for `Server.fork` and `restore`. */
  async snapshot() {
    return (await this.#ask("POST", this.#of("/snapshots"))).snapshot;
  }
  /** Makes the objects those of a snapshot. Watches see each difference as a change. */
  async restore(snapshot) {
    await this.#ask("POST", this.#of(`/snapshots/${snapshot}/restore`));
  }
  /** Ends a fork. */
  async stop() {
    await this.#ask("DELETE", `/clusters/${this.#number}`);
  }
}

/** A running `steersman apiserver`. */
class Server extends Cluster {
  #ask;
  #child;
  constructor(child, ready) {
    const { url, token } = ready.control;
    const ask = async (method, at, body) => {
      const answer = await fetch(url + at, {
        method,
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: body === undefined ? undefined : JSON.stringify(body),
      });
      const said = await answer.json();
      if (!answer.ok) throw new Error(`${method} ${at}: ${said.error}`);
      return said;
    };
    super(ask, 0, ready.url, ready.kubeconfig);
    this.#ask = ask;
    this.#child = child;
  }
  /** A cluster of its own with the objects of `snapshot`, or of this cluster as it is now. */
  async fork({ snapshot, still = false } = {}) {
    const made = await this.#ask("POST", "/clusters", { snapshot, still });
    return new Cluster(this.#ask, made.cluster, made.url, made.kubeconfig);
  }
  /** The time of all clusters, as text. */
  async now() {
    return (await this.#ask("GET", "/time")).now;
  }
  /** Moves the time by a duration such as `1h`. All timers in between fire in their order. */
  async advance(by) {
    await this.#ask("POST", "/time", { advance: by });
  }
  /** Lets time stand still. `advance` still moves it. */
  async stopTime() {
    await this.#ask("POST", "/time", { stopped: true });
  }
  /** Ends `stopTime`. */
  async resumeTime() {
    await this.#ask("POST", "/time", { stopped: false });
  }
  /** Stops the server. */
  async stop() {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.kill();
    await ended;
  }
}

/** Starts a server. Resolves when it is ready. */
async function start({ nodes = 3, controllers = "*", kubernetesVersion, apply = [], args = [] } = {}) {
  const manifests = apply.flatMap((manifest) => ["--apply", manifest]);
  const release = kubernetesVersion ? [`--kubernetes-version=${kubernetesVersion}`] : [];
  const settings = [`--nodes=${nodes}`, `--controllers=${controllers}`, ...release];
  const flags = ["apiserver", "--control", ...settings, ...manifests, ...args];
  const child = spawn(path(), flags, { stdio: ["ignore", "pipe", "inherit"] });
  const failed = Promise.race([
    once(child, "error").then(([error]) => Promise.reject(error)),
    once(child, "exit").then(([code]) => Promise.reject(new Error(`steersman apiserver ended with exit code ${code}`))),
  ]);
  const [line] = await Promise.race([once(createInterface({ input: child.stdout }), "line"), failed]);
  failed.catch(() => {});
  return new Server(child, JSON.parse(line));
}

/** The hooks of a test runner: jest's and vitest's names, or those of node:test. */
function hooksOf(runner) {
  const { beforeAll = runner.before, beforeEach, afterEach, afterAll = runner.after } = runner;
  if (beforeAll && beforeEach && afterEach && afterAll) return { beforeAll, beforeEach, afterEach, afterAll };
  throw new Error(
    "the test runner has no global hooks; pass its module: " +
      'import * as vitest from "vitest"; forks(options, prepare, vitest)',
  );
}

/** One server for a test file. Returns a function that returns the server, once it runs. */
function shared(options, prepare, { beforeAll, afterAll }) {
  let server;
  beforeAll(async () => {
    server = await start(options);
    await prepare(server);
  });
  afterAll(async () => {
    await server?.stop();
  });
  return () => server;
}

/**
 * For test runners, at the top of a file: one server for the file, and a fork of it for each test. Returns a
 * function that returns the fork. `prepare` gets the server once, before the first test. `runner` is a module
 * with hooks, where they are not global.
 */
function forks(options = {}, prepare = async () => {}, runner = globalThis) {
  const hooks = hooksOf(runner);
  let snapshot;
  let cluster;
  const keep = async (server) => {
    await prepare(server);
    snapshot = await server.snapshot();
  };
  const server = shared(options, keep, hooks);
  hooks.beforeEach(async () => {
    cluster = await server().fork({ snapshot });
  });
  hooks.afterEach(async () => {
    await cluster?.stop();
    cluster = undefined;
  });
  return () => cluster;
}

/**
 * As `forks`, with a new namespace of the server for each test, which costs less. Returns a function that returns
 * `{ server, name }`.
 */
function namespaces(options = {}, prepare = async () => {}, runner = globalThis) {
  const hooks = hooksOf(runner);
  const server = shared(options, prepare, hooks);
  let name;
  hooks.beforeEach(async () => {
    name = await server().namespace();
  });
  return () => ({ server: server(), name });
}

module.exports = { Cluster, Fault, Server, forks, namespaces, path, start };
