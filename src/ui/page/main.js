// The frame of the page: address -> view -> stream of its data -> elements.
//
// View, object and filter are in the address, so a reload or a link shows the same.

import { h, morph, morphChildren } from "./dom.js";
import { empty, setSkew, span, tick } from "./parts.js";
import { rollouts, stuck, why } from "./objects.js";
import { flow, leadership, timeline } from "./machine.js";
import { garbage, nodes } from "./cluster.js";

/** Views in the order of the navigation: title, function, and the path of the data. */
const VIEWS = {
  stuck: ["Stuck", stuck, (state) => `stuck${namespace(state)}`],
  rollouts: ["Roll-outs", rollouts, (state) => `rollouts${state.path.length ? `?namespace=${encodeURIComponent(state.path[1])}` : namespace(state)}`],
  flow: ["Flow", flow, () => "flow"],
  timeline: ["Timeline", timeline, () => "timeline"],
  leadership: ["Leadership", leadership, () => "leadership"],
  garbage: ["Garbage collector", garbage, (state) => ["garbage", ...state.path].map(encodeURIComponent).join("/")],
  nodes: ["Nodes", nodes, () => "nodes"],
  why: ["", why, (state) => ["stuck", ...state.path].map(encodeURIComponent).join("/")],
};
const SHOWN = Object.keys(VIEWS).filter((name) => VIEWS[name][0]);

const namespace = (state) => (state.query.get("ns") ? `?namespace=${encodeURIComponent(state.query.get("ns"))}` : "");
const main = document.getElementById("main");
const endpoint = (path) => new URL(`../debug/ui/${path}`, location.href.split("#")[0]);

let state, source, data, shown, told, lostAt, lostTimer, retry, steps, stepsTimer;

function read() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path.split("/").filter(Boolean).map(decodeURIComponent);
  return {
    view: VIEWS[view] ? view : "stuck",
    path: rest,
    query: new URLSearchParams(query ?? ""),
    about: shown?.about ?? {},
    set(name, value, isNew) {
      if (value) this.query.set(name, value);
      else this.query.delete(name);
      const text = this.query.toString();
      const address = `#/${[this.view, ...this.path].map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
      history.replaceState(null, "", address);
      if (isNew) route();
      else render();
    },
    simulate,
  };
}

async function simulate(wish) {
  const answer = await fetch(endpoint("simulate"), { method: "POST", headers: { "X-Steersman-Ui": "1" }, body: JSON.stringify(wish) }).catch((error) => ({ ok: false, text: () => String(error) }));
  told = answer.ok ? "" : `The cluster refuses: ${await answer.text()}`;
  banner();
}

function route() {
  const before = state && JSON.stringify([state.view, state.path, state.query.get("ns")]);
  state = read();
  const isSame = before === JSON.stringify([state.view, state.path, state.query.get("ns")]);
  navigation();
  if (isSame && source) return render();
  data = undefined;
  steps = undefined;
  told = "";
  scrollTo(0, 0);
  main.replaceChildren(h("p", { class: "sub loading" }, "Reading …"));
  document.title = `${VIEWS[state.view][0] || state.path.join("/")} · Steersman`;
  open();
}

/** Opens the stream of the view. A hidden page has none, so it costs the manager nothing. */
function open() {
  source?.close();
  clearTimeout(retry);
  clearTimeout(stepsTimer);
  source = undefined;
  if (document.hidden) return;
  const path = VIEWS[state.view][2](state);
  const opened = new EventSource(endpoint(path));
  source = opened;
  opened.onmessage = (event) => {
    const next = JSON.parse(event.data);
    found();
    if (next.error) return refused(next.error);
    data = next;
    shown = next;
    state.about = next.about;
    if (next.time) setSkew(next.time);
    process(next.about);
    render();
    readSteps();
  };
  opened.onopen = found;
  opened.onerror = () => {
    if (opened !== source) return;
    // A stream ends every minute, and the next one opens at once. Only a longer gap is a loss.
    lostAt ??= Date.now();
    lostTimer ??= setTimeout(banner, 3000);
    if (opened.readyState === EventSource.CLOSED) {
      explain(path);
      retry = setTimeout(open, 3000);
    }
  };
}

/** Events about one workload come with each change of its numbers. */
function readSteps() {
  if (state.view !== "rollouts" || !state.path.length) return;
  clearTimeout(stepsTimer);
  const path = ["rollouts", ...state.path].map(encodeURIComponent).join("/");
  stepsTimer = setTimeout(async () => {
    const answer = await fetch(endpoint(path)).catch(() => undefined);
    if (!answer?.ok) return;
    steps = (await answer.json()).steps;
    render();
  }, steps ? 700 : 0);
}

function found() {
  clearTimeout(lostTimer);
  lostTimer = lostAt = undefined;
  banner();
}

/** The reason why a stream does not open. */
async function explain(path) {
  const answer = await fetch(endpoint(path)).catch(() => undefined);
  if (!answer || answer.ok) return;
  const text = await answer.text();
  const known = /"(?:error|message)":\s*"((?:[^"\\]|\\.)*)"/.exec(text);
  refused(`${known ? JSON.parse(`"${known[1]}"`) : text.trim()} (${answer.status})`);
}

function refused(reason) {
  data = undefined;
  const back = state.view === "why" ? h("a", { class: "back", href: "#/stuck" }, "‹ Stuck") : "";
  main.replaceChildren(...[back, h("h1", {}, VIEWS[state.view][0] || state.path.join("/")), empty("No data.", reason)].filter(Boolean));
}

function banner() {
  const place = document.getElementById("banner");
  const isLost = lostAt && Date.now() - lostAt >= 2900;
  const lost = isLost ? `The manager has not answered for ${span(Date.now() - lostAt)}. ${data ? "The page shows the last state." : "It tries again."}` : "";
  const text = [told, lost].filter(Boolean).join(" ");
  if (place.textContent !== text) place.replaceChildren(...(text ? [h("p", {}, text)] : []));
  document.body.classList.toggle("lost", Boolean(isLost));
}

function process(about) {
  const role = about.leads === null ? "" : about.leads ? "leads" : "stands by";
  morphChildren(document.getElementById("process"), [h("span", { title: about.identity }, role), h("span", { class: "sub" }, `v${about.version} · Kubernetes ${about.kubernetes.replace(/^v/, "")}`)]);
}

function navigation() {
  const current = state.view === "why" ? "stuck" : state.view;
  const links = SHOWN.map((name, at) => h("a", { href: `#/${name}`, "aria-current": name === current ? "page" : null, title: `Key ${at + 1}` }, VIEWS[name][0]));
  morphChildren(document.getElementById("nav"), links);
  document.querySelector("#nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

let drawing = false;
function render() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    if (!data) return;
    const notes = [data.unverified && `The certificate of the leader is not verified (SHA-256 ${data.unverified}).`, data.withoutLeader && `From API objects alone: ${data.withoutLeader}.`].filter(Boolean).join(" ");
    const next = h("main", { id: "main", tabindex: "-1" }, VIEWS[state.view][1]({ ...data, steps }, state), notes && h("p", { class: "withheld" }, notes));
    morph(main, next);
  });
}

/** Keys: `?` lists them. */
const KEYS = [["/", "filter"], [`1 – ${SHOWN.length}`, "views"], ["j, k", "next and previous row"], ["Enter", "open the row"], ["Esc", "clear the filter, or go back"], ["?", "this list"]];
const dialog = document.getElementById("keys");
dialog.append(h("h2", { id: "keys-title" }, "Keys"), h("dl", {}, KEYS.map(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)])), h("button", { onclick: () => dialog.close() }, "Close"));

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
  const inField = event.target.matches?.("input, textarea");
  const filter = document.getElementById("filter");
  if (event.key === "Escape") {
    if (inField) event.target.blur();
    if (state.query.get("q")) {
      if (filter) filter.value = "";
      state.set("q", "");
    } else if (!inField && state.path.length) history.back();
    return;
  }
  if (inField) return;
  if (event.key === "/" && filter) filter.focus();
  else if (event.key === "?") dialog.showModal();
  else if (SHOWN[Number(event.key) - 1]) location.hash = `#/${SHOWN[Number(event.key) - 1]}`;
  else if (event.key === "j" || event.key === "k") move(event.key === "j" ? 1 : -1);
  else return;
  event.preventDefault();
});

function move(by) {
  const links = [...document.querySelectorAll(".rows a")];
  const at = links.indexOf(document.activeElement);
  links[Math.max(0, Math.min(links.length - 1, at + by))]?.focus();
}

addEventListener("hashchange", route);
addEventListener("scroll", render, { passive: true });
addEventListener("resize", render);
document.addEventListener("visibilitychange", open);
setInterval(() => {
  tick();
  if (lostAt) banner();
}, 1000);
route();
