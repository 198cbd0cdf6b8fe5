// The graph of owners, and the nodes with their pods.

import { h, rows } from "./dom.js";
import { back, card, empty, head, kind, linkTo, mark, matches, place, sub, typeOf, when, withheld } from "./parts.js";

export function garbage(data, state) {
  const nodes = data.nodes ?? [];
  const [type, ...rest] = state.path;
  const search = h("form", { class: "find", onsubmit: (event) => {
    event.preventDefault();
    const parts = event.target.elements.object.value.trim().split(/[\s/]+/).filter(Boolean);
    if (parts.length > 1) location.hash = linkTo("garbage", ...(parts.length === 2 ? [parts[0], "", parts[1]] : parts));
  } }, h("input", { name: "object", class: "wide", placeholder: "deployment/NAMESPACE/NAME", "aria-label": "Object: kind, namespace, name", value: state.path.join("/") }), h("button", {}, "Show"));
  const title = type ? `${type} ${rest.join("/")}` : "Garbage collector";
  const about = type ? "Owners above, dependents below" : "Objects that are on their way out, or that no cache shows; name an object for the graph around it";
  const graph = type ? tree(nodes, data.root) : nodes.map((node) => h("li", {}, line(node, null)));
  return [
    type && back("garbage", "Garbage collector"),
    head(title, about, null, search),
    withheld(data),
    data.isCut && h("p", { class: "withheld" }, `Only the nearest ${nodes.length} objects are shown.`),
    nodes.length === 0 ? empty("Nothing to see.", type ? "No owner reference connects this object to another one." : "No object is being deleted, and every owner is known.") :
      h("div", { class: "card" }, h("ul", { class: "tree" }, graph)),
  ];
}

/** The objects as trees of their first owners. */
function tree(nodes, root) {
  const known = new Map(nodes.map((node) => [node.uid, node]));
  const below = new Map();
  const tops = [];
  for (const node of nodes) {
    const owner = node.owners.find((uid) => known.has(uid));
    if (owner === undefined) tops.push(node);
    else below.set(owner, [...(below.get(owner) ?? []), node]);
  }
  const seen = new Set();
  const grow = (node) => {
    if (seen.has(node.uid)) return "";
    seen.add(node.uid);
    const others = node.owners.slice(1).map((uid) => known.get(uid)).filter(Boolean).map((other) => `${other.kind} ${other.name}`);
    return h("li", {}, line(node, root, others), below.has(node.uid) && h("ul", {}, below.get(node.uid).map(grow)));
  };
  // A circle of owners has no top.
  return [...tops, ...nodes].map(grow);
}

function line(node, root, others = []) {
  return h("div", { class: node.uid === root ? "node root" : "node" }, kind(node.kind),
    h("a", { href: linkTo("garbage", typeOf(node), node.namespace, node.name) }, place(node)), " ",
    node.waitsForDependents ? mark("ending", "waits for its dependents") : node.beingDeleted && mark("ending", "being deleted"),
    node.isVirtual && mark("cause", "no cache shows it"),
    others.length > 0 && sub(` also owned by ${others.join(", ")}`), " ",
    h("a", { class: "sub", href: linkTo("why", typeOf(node), node.namespace, node.name) }, "why"));
}

const PODS = { ready: "ready", running: "not ready", pending: "pending", ending: "ending", done: "done", failed: "failed" };

export function nodes(data, state) {
  const all = data.nodes ?? [];
  const filter = state.query.get("q");
  const waiting = data.unscheduled ?? [];
  if (state.path.length) return node(all.find((one) => one.name === state.path[0]), data, state, filter);
  const zones = new Map();
  for (const one of all.filter((one) => matches(filter, one.name, one.zone, one.ready))) zones.set(one.zone, [...(zones.get(one.zone) ?? []), one]);
  const pods = all.reduce((sum, one) => sum + one.pods.length, 0);
  const example = state.about.simulates && h("button", { onclick: () => state.simulate({ kind: "example" }) }, "Start an example");
  return [
    head("Nodes", `${all.length} nodes, ${pods} pods${waiting.length ? `, ${waiting.length} pods without a node` : ""}`, state, example),
    withheld(data),
    state.about.simulates && h("p", { class: "hint" }, "Start the example, stop a zone, and look at Stuck and Timeline: after 40 seconds its nodes count as unreachable, and the pods of the example leave."),
    h("p", { class: "legend" }, Object.entries(PODS).map(([tone, word]) => h("span", {}, h("i", { class: `pod ${tone}` }), word))),
    [...zones].map(([zone, members]) => h("section", { class: "card zone" },
      h("div", { class: "line" }, h("h2", {}, zone ? `Zone ${zone}` : "Nodes without a zone"), zone && state.about.simulates && button("zone", zone, members.every((one) => one.behaviour === "dead"), "zone", state)),
      h("div", { class: "nodes" }, members.map((one) => nodeCard(one, state))))),
  ];
}

function button(kind, name, isDead, word, state) {
  return h("button", { class: isDead ? "" : "danger", onclick: () => state.simulate({ kind, name, behaviour: isDead ? "" : "dead" }) }, isDead ? `Start ${word} ${name}` : `Stop ${word} ${name}`);
}

function nodeCard(one, state) {
  const isReady = one.ready === "True";
  return h("div", { class: "nodecard", "data-key": one.name },
    h("div", { class: "line" }, h("a", { href: linkTo("nodes", one.name) }, one.name), isReady ? mark("ready") : mark("not ready")),
    squares(one.pods),
    h("div", { class: "line" }, sub(`${one.pods.length} pods`, one.behaviour && ` · ${one.behaviour}`), state.about.simulates && button("node", one.name, one.behaviour === "dead", "", state)));
}

/** Pods as squares: one shape per state, so that thousands cost little. */
function squares(pods) {
  const per = 24, paths = {};
  pods.slice(0, 480).forEach((pod, at) => {
    const x = (at % per) * 10, y = Math.floor(at / per) * 10;
    const shape = { failed: `M${x} ${y}l8 8m0 -8l-8 8`, ending: `M${x} ${y + 8}l8 -8`, pending: `M${x + 1} ${y + 1}h6v6h-6z` }[pod.state];
    paths[pod.state] = (paths[pod.state] ?? "") + (shape ?? `M${x} ${y}h8v8h-8z`);
  });
  const height = Math.max(1, Math.ceil(Math.min(pods.length, 480) / per)) * 10;
  const counts = Object.keys(PODS).map((state) => [state, pods.filter((pod) => pod.state === state).length]).filter(([, count]) => count);
  return h("svg", { class: "pods", viewBox: `0 0 ${per * 10} ${height}`, role: "img", "aria-label": counts.map(([state, count]) => `${count} ${PODS[state]}`).join(", ") || "no pods" },
    Object.entries(paths).map(([state, d]) => h("path", { class: `pod ${state}`, d })));
}

function node(one, data, state, filter) {
  const up = back("nodes", "Nodes");
  if (!one) return [up, head(state.path[0], "", null), empty("Not there.", "No such node exists, or you may not get it.")];
  const pods = one.pods.filter((pod) => matches(filter, pod.namespace, pod.name, PODS[pod.state]));
  return [
    up,
    head(`Node ${one.name}`, `${one.pods.length} pods${one.zone ? ` · zone ${one.zone}` : ""}`, state, [h("a", { class: "button", href: linkTo("why", "node", "", one.name) }, "Why"), state.about.simulates && button("node", one.name, one.behaviour === "dead", "", state)]),
    h("div", { class: "card" }, h("p", { class: "big" }, one.ready === "True" ? mark("ready") : mark("not ready"), " ", sub("for ", when(one.since, "age"))),
      h("p", {}, one.message), one.taints.length > 0 && h("p", {}, "Taints: ", h("code", {}, one.taints.join(", ")))),
    pods.length === 0 ? empty("No pods.", "No pod of this node matches.") :
      rows(pods, [40, 52], (pod) => h("div", { class: "row pod-row" }, h("i", { class: `pod ${pod.state}`, "aria-hidden": "true" }),
        h("a", { href: linkTo("why", "pods", pod.namespace, pod.name) }, place(pod)), sub(PODS[pod.state])), "Pods"),
  ];
}
