// Objects that do not move, and roll-outs.

import { h, rows } from "./dom.js";
import { back, card, empty, head, kind, linkTo, mark, matches, now, number, place, span, sub, typeOf, when, withheld } from "./parts.js";

/** The deepest cause of an answer, with its object. */
function cause(answer, depth = 0) {
  let found = null;
  for (const reason of answer.reasons ?? []) {
    if (reason.role === "cause" && !found) found = { reason, object: answer.object, depth };
  }
  for (const below of answer.waitsFor ?? []) {
    const deeper = cause(below, depth + 1);
    if (deeper && (!found || deeper.depth > found.depth)) found = deeper;
  }
  return found;
}

const since = (answer) => {
  const times = [answer.since, ...(answer.reasons ?? []).map((one) => one.since), ...(answer.waitsFor ?? []).map(since)].filter(Boolean);
  return times.sort()[0];
};

export function stuck(data, state) {
  const filter = state.query.get("q");
  const all = (data.answers ?? []).map((answer) => ({ answer, ...cause(answer) }));
  const shown = all.filter(({ answer, reason }) =>
    matches(filter, answer.object.kind, place(answer.object), answer.state, reason?.message, reason?.who));
  const about = all.length ? `${all.length} ${all.length === 1 ? "object stands" : "objects stand"} still, oldest first` : "";
  return [
    head("Stuck", about, state, namespaceBox(state)),
    withheld(data),
    all.length === 0 && empty("Nothing is stuck.", "Every object moves, or waits for something that ends by itself."),
    all.length > 0 && shown.length === 0 && empty("No match.", "No object that stands still has all words of the filter."),
    shown.length > 0 && rows(shown, [84, 150], stuckRow, "Objects that stand still"),
  ];
}

function stuckRow({ answer, reason, object }) {
  const { object: of } = answer;
  const next = reason?.nextTry && Date.parse(reason.nextTry) > now();
  return h("div", { class: "row stuck-row" },
    h("a", { class: "cover", href: linkTo("why", typeOf(of), of.namespace, of.name), "aria-label": `Why ${of.kind} ${place(of)} stands still` }),
    h("div", { class: "what" }, kind(of.kind), h("span", { class: "name" }, place(of)), sub(answer.state)),
    h("div", { class: "cause" },
      h("span", { class: "message", title: reason?.message }, mark("cause", ""), " ",
        object && object.name !== of.name && h("b", {}, `${object.kind.toLowerCase()} ${object.name}: `), reason?.message),
      reason?.who && h("span", { class: "sub", title: reason.who }, "can act: ", h("b", {}, reason.who))),
    h("div", { class: "times" }, since(answer) ? h("span", {}, when(since(answer), "age")) : sub("since ?"),
      sub(next ? ["next try ", when(reason.nextTry, "in")] : reason?.attempts ? `${reason.attempts} tries` : "")));
}

function namespaceBox(state) {
  return h("input", { type: "search", class: "short", placeholder: "Namespace", "aria-label": "Namespace", value: state.query.get("ns") ?? "",
    onchange: (event) => state.set("ns", event.target.value.trim(), true) });
}

export function why(data, state) {
  const [type, ...rest] = state.path;
  const answer = data.answers?.[0];
  if (!answer) return [head("Why", "", null), empty("No answer.", "Nothing is known about this object.")];
  const of = answer.object;
  const resources = { Deployment: "deployments", StatefulSet: "statefulsets", DaemonSet: "daemonsets", Job: "jobs" };
  const links = [
    resources[of.kind] && h("a", { class: "button", href: linkTo("rollouts", resources[of.kind], of.namespace, of.name) }, "Roll-out"),
    h("a", { class: "button", href: linkTo("garbage", type, ...(rest.length > 1 ? rest : ["", rest[0]])) }, "Owners and dependents"),
  ];
  return [
    back("stuck", "Stuck"),
    head(`${of.kind} ${place(of)}`, data.stuck ? "Chain of reasons, down to what somebody can change" : "Nothing here needs a person", null, links),
    h("div", { class: "card" }, h("ul", { class: "tree" }, branch(answer))),
    withheld(data),
    h("p", { class: "sub foot" }, data.leader ? `Answer of the leader, ${data.leader}` : "Answer from API objects alone, without the queues of a leader"),
  ];
}

function branch(answer) {
  const of = answer.object;
  const isStuck = (one) => (one.reasons ?? []).some((reason) => reason.role === "cause") || (one.waitsFor ?? []).some(isStuck);
  return h("li", {},
    h("div", { class: "node" }, kind(of.kind),
      h("a", { href: linkTo("why", typeOf(of), of.namespace, of.name) }, place(of)), " ",
      h("span", { class: isStuck(answer) ? "bad" : "calm" }, answer.state), " ",
      answer.since && sub("for ", when(answer.since, "age"))),
    h("ul", {},
      (answer.reasons ?? []).map((reason) => h("li", { class: `reason ${reason.role}` },
        h("div", {}, mark(reason.role, ""), " ", h("span", { class: "message" }, reason.message)),
        reason.who && h("div", { class: "who" }, "Can act: ", reason.who),
        h("div", { class: "sub" }, [
          h("code", { title: "Code of the reason" }, reason.code),
          reason.by && h("span", {}, reason.by),
          reason.since && h("span", {}, "for ", when(reason.since, "age")),
          reason.lastTry && h("span", {}, "last try ", when(reason.lastTry, "ago"), reason.attempts > 1 ? ` (${reason.attempts} in a row)` : ""),
          reason.nextTry && h("span", {}, "next ", when(reason.nextTry, "in")),
        ]))),
      (answer.waitsFor ?? []).map(branch)));
}

export function rollouts(data, state) {
  if (state.path.length) return rollout(data, state);
  const filter = state.query.get("q");
  const all = data.items ?? [];
  const shown = all.filter((item) => matches(filter, item.kind, place(item), item.state, item.images.join(" ")));
  const moving = all.filter((item) => item.state === "progressing").length;
  const failed = all.filter((item) => item.state === "failed").length;
  const about = `${all.length} workloads: ${moving} under way, ${failed} failed`;
  const example = state.about.simulates && h("button", { onclick: () => state.simulate({ kind: "example" }) }, "Start an example");
  return [
    head("Roll-outs", about, state, [example, namespaceBox(state)]),
    withheld(data),
    all.length === 0 && empty("No workloads.", "Deployments, StatefulSets, DaemonSets and Jobs appear here."),
    all.length > 0 && shown.length === 0 && empty("No match.", "No workload has all words of the filter."),
    shown.length > 0 && legend(),
    shown.length > 0 && rows(shown, [60, 108], rolloutRow, "Workloads"),
  ];
}

function legend() {
  const item = (tone, text) => h("span", {}, h("i", { class: `swatch ${tone}` }), text);
  return h("p", { class: "legend" }, item("available", "new and available"), item("starting", "new, not available"), item("old", "old"), item("limit", "limits of the strategy"));
}

function numbers(item) {
  if (item.job) return `${item.job.succeeded} of ${item.desired} done, ${item.job.active} active, ${item.job.failed} failed`;
  const old = item.old ? `new, ${item.old} old` : "available";
  return `${item.newAvailable} of ${item.desired} ${old}`;
}

function rolloutRow(item) {
  return h("div", { class: "row rollout-row" },
    h("a", { class: "cover", href: linkTo("rollouts", item.resource, item.namespace, item.name), "aria-label": `${item.kind} ${place(item)}` }),
    h("div", { class: "what" }, kind(item.kind), h("span", { class: "name" }, place(item))),
    h("div", {}, mark(item.state)),
    h("div", { class: "filling" }, bar(item), sub(numbers(item))),
    h("div", { class: "times" }, item.revision && sub(`revision ${item.revision}`),
      item.deadline && sub("fails ", when(item.deadline, "in"))));
}

/** New and old pods one after the other, with the limits as lines. */
function bar(item, height = 14) {
  const starting = Math.max(0, item.new - item.newAvailable);
  const top = Math.max(item.desired, item.new + item.old, item.most ?? 0, 1);
  const x = (value) => (value / top) * 400;
  const parts = [["available", item.newAvailable], ["starting", starting], ["old", item.old]];
  let at = 0;
  const shapes = parts.filter(([, size]) => size > 0).map(([tone, size]) => {
    // Solid, half as high, and hollow: the form tells the parts apart, too.
    const y = tone === "starting" ? height / 2 : tone === "old" ? 3 : 2;
    const shape = h("rect", { class: tone, x: x(at), y, width: Math.max(1, x(size) - 2), height: height - y - (tone === "old" ? 3 : 2) });
    at += size;
    return shape;
  });
  const lines = [item.fewest, item.most].filter((value) => value !== undefined && value !== null)
    .map((value) => h("line", { class: "limit", x1: Math.min(399, Math.max(1, x(value))), x2: Math.min(399, Math.max(1, x(value))), y1: 0, y2: height }));
  return h("svg", { class: "bar", viewBox: `0 0 400 ${height}`, preserveAspectRatio: "none", role: "img",
    "aria-label": `${item.newAvailable} new pods available, ${starting} starting, ${item.old} old, of ${item.desired}` },
  h("rect", { class: "track", x: 0, y: 2, width: 400, height: height - 4 }), shapes, lines);
}

function rollout(data, state) {
  const [resource, namespace, name] = state.path;
  const item = (data.items ?? []).find((one) => one.resource === resource && one.namespace === namespace && one.name === name);
  const up = back("rollouts", "Roll-outs");
  if (!item) return [up, head(`${namespace}/${name}`, "", null), withheld(data), empty("Not there.", "No such workload exists, or you may not get it.")];
  const wish = (behaviour) => () => state.simulate({ kind: "deployment", namespace, name, behaviour });
  const versions = [["fail", "crashes"], ["hang", "hangs"], ["", "works"]];
  const buttons = state.about.simulates && item.kind === "Deployment" &&
    versions.map(([behaviour, word]) => h("button", { onclick: wish(behaviour) }, `New version: ${word}`));
  const fact = (label, value) => value !== undefined && value !== "" && value !== false && [h("dt", {}, label), h("dd", {}, value)];
  return [
    up,
    head(`${item.kind} ${place(item)}`, item.message, null, [h("a", { class: "button", href: linkTo("why", item.resource, namespace, name) }, "Why"), buttons]),
    h("div", { class: "card" },
      h("div", { class: "line" }, mark(item.state), h("span", {}, numbers(item))),
      bar(item, 30),
      legend(),
      h("dl", {},
        fact("Desired", number(item.desired)),
        item.most !== undefined && fact("Limits", `at most ${item.most} pods, at least ${item.fewest ?? 0} available`),
        fact("Strategy", item.strategy),
        fact("Revision", item.revision),
        fact("Images", item.images.join(", ")),
        item.since && fact("Since", when(item.since, "ago")),
        item.deadline && fact("Reported as failed", when(item.deadline, "in")),
        item.job && fact("Back-off limit", `${item.job.failed} of ${item.job.backoffLimit} failures`))),
    item.job?.isIndexed && indexes(item),
    item.sets && card("Revisions with pods", table(["Revision", "ReplicaSet", "Pods", "Available", "Images", "Age"],
      item.sets.map((set) => [set.revision, h("a", { href: linkTo("why", "replicasets", namespace, set.name) }, set.name), `${set.pods} of ${set.desired}`, set.available, set.images.join(", "), when(set.created, "age")]))),
    steps(data.steps),
  ];
}

/** Each index of a Job as a cell, up to a number that a screen holds. */
function indexes(item) {
  const done = members(item.job.completedIndexes), failed = members(item.job.failedIndexes);
  const cells = Array.from({ length: Math.min(item.desired, 600) }, (_, at) => {
    const [sign, tone, word] = done.has(at) ? ["✓", "good", "done"] : failed.has(at) ? ["✕", "bad", "failed"] : ["·", "calm", "open"];
    return h("span", { class: `cell ${tone}`, title: `index ${at}: ${word}` }, sign);
  });
  return card("Indexes", h("div", { class: "cells", role: "img", "aria-label": `${done.size} done, ${failed.size} failed, of ${item.desired}` }, cells),
    item.desired > 600 && h("p", { class: "sub" }, "The first 600 are shown."));
}

/** The numbers of `0,3-5`. */
function members(text) {
  const found = new Set();
  for (const part of text.split(",").filter(Boolean)) {
    const [from, to = from] = part.split("-").map(Number);
    for (let at = from; at <= to && found.size < 100000; at += 1) found.add(at);
  }
  return found;
}

/** Events on a line of time, and as a list. */
function steps(all) {
  if (!all) return "";
  if (all.length === 0) return card("Steps", h("p", { class: "sub" }, "No Events; the API server keeps them for an hour."));
  const times = all.map((step) => Date.parse(step.first));
  const ends = all.map((step) => Date.parse(step.last));
  const from = Math.min(...times), to = Math.max(...ends, from + 1000);
  const x = (time) => 6 + ((time - from) / (to - from)) * 588;
  const dots = all.map((step, at) => h("circle", { class: step.warning ? "bad" : "good", cx: x(times[at]), cy: 14, r: step.warning ? 5 : 4 }));
  const lines = all.map((step, at) => ends[at] > times[at] && h("line", { class: step.warning ? "bad" : "good", x1: x(times[at]), x2: x(ends[at]), y1: 14, y2: 14 }));
  const isLong = Math.max(...ends) > from;
  return card("Steps",
    isLong && h("svg", { class: "axis", viewBox: "0 0 600 28", role: "img", "aria-label": `${all.length} steps in ${span(to - from)}` }, h("line", { class: "track", x1: 0, x2: 600, y1: 14, y2: 14 }), lines, dots),
    isLong && h("div", { class: "ends sub" }, when(from, "clock"), h("span", {}, span(to - from)), when(to, "clock")),
    h("ol", { class: "steps" }, all.slice(-60).reverse().map((step) => h("li", {}, when(step.last, "clock"), " ",
      step.warning ? mark("cause", "") : mark("fact", ""), " ", h("b", {}, step.reason), " ", step.message, step.count > 1 && sub(` ${step.count} times`)))));
}

export function table(titles, lines) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": titles[0] }, h("table", {},
    h("thead", {}, h("tr", {}, titles.map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, lines.map((line) => h("tr", {}, line.map((cell, at) => h("td", { "data-title": titles[at] }, cell)))))));
}
