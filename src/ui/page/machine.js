// The manager itself: queues and caches, leadership, and its last writes.

import { h, rows } from "./dom.js";
import { bytes, card, empty, head, kind, linkTo, mark, matches, now, number, seconds, spark, sub, total, when, withheld } from "./parts.js";
import { table } from "./objects.js";

export function flow(data, state) {
  const filter = state.query.get("q");
  const plots = data.plots ?? {};
  const plot = (name, of) => spark(plots[`${name} ${of}`], `${name} of ${of}`);
  const busy = (a, b) => b.depth - a.depth || b.syncs - a.syncs || b.total - a.total || a.name.localeCompare(b.name);
  const queues = (data.queues ?? []).filter((queue) => matches(filter, queue.name)).sort(busy);
  const informers = (data.informers ?? []).filter((informer) => matches(filter, informer.resource)).sort((a, b) => b.bytes - a.bytes);
  const sum = (list, name) => (list ?? []).reduce((all, one) => all + one[name], 0);
  const tile = (label, value, values) => h("div", { class: "tile" }, sub(label), h("b", {}, value), values && spark(values, label, [220, 34]));
  return [
    head("Flow", "Queues, caches and requests of this manager, in the last ten minutes while somebody looked", state),
    h("div", { class: "tiles" },
      tile("Keys in queues", number(sum(data.queues, "depth")), total(plots, "queue.depth ")),
      tile("Syncs per second", number(sum(data.queues, "syncs")), total(plots, "queue.syncs ")),
      tile("Requests per second", number(sum(data.requests, "rate")), total(plots, "request.rate ")),
      tile("Objects in caches", number(sum(data.informers, "objects"))),
      tile("Memory of caches", bytes(sum(data.informers, "bytes")))),
    card("Queues", queues.length === 0 ? h("p", { class: "sub" }, "No queue has had a key.") :
      table(["Queue", "Keys", "", "Oldest", "Syncs/s", "", "Time per sync", "Retries/s", "Syncs"],
        queues.map((queue) => [queue.name, number(queue.depth), plot("queue.depth", queue.name), seconds(queue.oldest), number(queue.syncs), plot("queue.syncs", queue.name),
          [seconds(queue.seconds), queue.running > 1 && h("span", { class: "warn" }, ` one runs for ${seconds(queue.running)}`)],
          queue.retries ? h("b", { class: "bad" }, number(queue.retries)) : "0", queue.total.toLocaleString()]))),
    card("Requests to the API server",
      table(["Method", "Per second", "", "Latency", "", "Refused/s", "All"],
        (data.requests ?? []).map((of) => [of.verb, number(of.rate), plot("request.rate", of.verb), seconds(of.seconds), plot("request.seconds", of.verb),
          of.failed ? h("b", { class: "bad" }, number(of.failed)) : "0", of.total.toLocaleString()])),
      (data.throttle ?? []).length > 0 && h("p", {}, mark("wait", ""), " Waiting for the throttle (--kube-api-qps): ",
        data.throttle.map((of) => `${of.client} ${number(of.waits * 100)} % of the time`).join(", "))),
    card("Informers",
      table(["Resource", "Objects", "Memory", "Age of the watch", "Events/s", "", "Lists"],
        informers.map((of) => [of.resource, of.objects.toLocaleString(), bytes(of.bytes), seconds(of.age), number(of.events), plot("informer.events", of.resource), of.relists]))),
  ];
}

export function leadership(data) {
  const lease = data.lease;
  const caches = data.caches;
  const cold = caches?.notSynced ?? [];
  const left = lease?.renewed ? Date.parse(lease.renewed) + lease.seconds * 1000 - now() : 0;
  const share = lease ? Math.max(0, Math.min(1, left / (lease.seconds * 1000))) : 0;
  return [
    head("Leadership", data.elects ? `Lease ${data.name}` : "", null),
    withheld(data),
    h("div", { class: "pair" },
      data.leads !== null && card("This manager",
        h("p", { class: "big" }, data.leads ? mark("leading", "leads") : mark("standby", "stands by")),
        !data.elects && h("p", {}, "It runs without leader election (--leader-elect=false), so it is the only one."),
        caches && h("p", {}, cold.length === 0 ? mark("ready", "all caches are filled, so a takeover starts at once") : mark("wait", `caches to fill: ${cold.join(", ")}`)),
        (caches?.findings ?? []).map((finding) => h("p", {}, mark("cause", finding)))),
      lease && card("Lease",
        h("p", { class: "big name" }, lease.holder || "nobody holds it"),
        h("svg", { class: "bar", viewBox: "0 0 400 14", preserveAspectRatio: "none", role: "img", "aria-label": `${Math.round(share * 100)} % of the Lease is left` },
          h("rect", { class: "track", x: 0, y: 2, width: 400, height: 10 }), h("rect", { class: share > 0.3 ? "available" : "starting", x: 0, y: 2, width: share * 400, height: 10 })),
        h("dl", {}, h("dt", {}, "Renewed"), h("dd", {}, when(lease.renewed, "ago"), ` of ${lease.seconds} s`),
          h("dt", {}, "Held"), h("dd", {}, "for ", when(lease.acquired, "age")),
          h("dt", {}, "Hand-overs"), h("dd", {}, lease.transitions)))),
    data.elects && card("Hand-overs",
      (data.handOvers ?? []).length === 0 ? h("p", { class: "sub" }, "No Events; the API server keeps them for an hour.") :
        h("ol", { class: "steps" }, data.handOvers.map((one) => h("li", {}, when(one.at, "clock"), " ", one.message, " ", sub(when(one.at, "ago")))))),
  ];
}

const VERBS = { create: "+", update: "=", patch: "~", delete: "−" };

export function timeline(data, state) {
  const filter = state.query.get("q");
  const all = data.items ?? [];
  const shown = all.filter((one) => matches(filter, one.by, one.verb, one.resource, one.namespace, one.name, one.sync, one.reason, one.message, one.code));
  return [
    head("Timeline", `The last ${all.length} writes of the controllers${filter ? `, ${shown.length} match` : ""}`, state),
    withheld(data),
    all.length === 0 && empty("No writes.", "No controller wrote since the start, or this manager stands by."),
    all.length > 0 && shown.length === 0 && empty("No match.", "No write has all words of the filter."),
    shown.length > 0 && rows(shown, [44, 84], write, "Writes"),
  ];
}

function write(one) {
  const isEvent = one.resource === "events";
  const object = `${one.namespace ? `${one.namespace}/` : ""}${one.name}`;
  const type = one.resource + (one.group ? `.${one.group}` : "");
  const failed = one.code >= 400 || one.code === 0;
  return h("div", { class: "row write-row" },
    sub(when(one.at, "clock")),
    h("span", { class: "by" }, one.by),
    h("span", { class: "object" }, h("span", { class: "verb", title: one.verb, "aria-label": one.verb }, VERBS[one.verb]), " ",
      isEvent ? h("span", {}, kind("Event"), one.sync) :
        [kind(one.resource + (one.subresource ? `/${one.subresource}` : "")), one.verb === "delete" || !one.name ? object : h("a", { href: linkTo("why", type, one.namespace, one.name) }, object)]),
    h("span", { class: "message", title: one.message }, failed && h("b", { class: "bad" }, one.code ? `refused (${one.code}) ` : "no answer "),
      isEvent ? [h("b", {}, one.reason), " ", one.message] : one.sync && sub(`for ${one.sync}`)));
}
