// Parts that several views use: times, numbers, marks, plots, links and the filter.

import { h } from "./dom.js";

/** Server time minus the viewer's, in milliseconds. */
let skew = 0;
export const setSkew = (serverTime) => (skew = Date.parse(serverTime) - Date.now());
export const now = () => Date.now() + skew;

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

/** `2m30s`, with two units at most. */
export function span(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds}s`;
  const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => seconds >= size);
  const [unit, size] = units[first];
  const rest = Math.floor((seconds % size) / units[first + 1][1]);
  return `${Math.floor(seconds / size)}${unit}${rest ? rest + units[first + 1][0] : ""}`;
}

const FORMS = {
  ago: (at) => `${span(now() - at)} ago`,
  age: (at) => span(now() - at),
  in: (at) => (at > now() ? `in ${span(at - now())}` : "now"),
  clock: (at) => clock.format(at - skew),
};

/** A time in the form `ago`, `age`, `in` or `clock`, with the exact value on hover. */
export function when(time, form) {
  if (time === undefined || time === null) return "";
  const at = typeof time === "number" ? time : Date.parse(time);
  const iso = new Date(at).toISOString();
  return h("time", { datetime: iso, title: exact.format(at), "data-form": form }, FORMS[form](at));
}

/** Brings the relative times of the page up to date. */
export function tick() {
  for (const element of document.querySelectorAll("time[data-form]")) {
    const text = FORMS[element.dataset.form](Date.parse(element.dateTime));
    if (element.textContent !== text) element.textContent = text;
  }
}

export function number(value) {
  if (value === undefined || value === null) return "–";
  if (value === 0) return "0";
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString();
  return String(Number(value.toPrecision(value < 0.01 ? 1 : 2)));
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let at = 0;
  for (; value >= 1024 && at < units.length - 1; at += 1) value /= 1024;
  return `${value >= 10 || at === 0 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}

export function seconds(value) {
  if (!value) return "–";
  if (value >= 60) return span(value * 1000);
  if (value >= 1) return `${number(value)} s`;
  return value >= 0.001 ? `${number(value * 1000)} ms` : `${Math.max(1, Math.round(value * 1e6))} µs`;
}

/** Form and word of a state; the form differs too, so that no colour alone carries it. */
const MARKS = {
  failed: ["✕", "bad"], stuck: ["▲", "bad"], progressing: ["◐", "busy"], paused: ["‖", "warn"],
  suspended: ["‖", "warn"], complete: ["✓", "good"], ready: ["✓", "good"], "not ready": ["✕", "bad"],
  leading: ["✓", "good"], standby: ["◐", "busy"], ending: ["◐", "busy"], cause: ["▲", "bad"],
  wait: ["◔", "busy"], fact: ["•", "calm"],
};

export function mark(state, word = state) {
  const [sign, tone] = MARKS[state] ?? ["•", "calm"];
  return h("span", { class: `mark ${tone}` }, h("span", { "aria-hidden": "true" }, sign), word && ` ${word}`);
}

/** A small plot. Gaps are null. */
export function spark(values, label, size = [96, 22]) {
  const [width, height] = size;
  const known = (values ?? []).filter((value) => value !== null);
  if (known.length < 2) return h("span", { class: "spark none" }, "…");
  const top = Math.max(...known) || 1;
  // Ten minutes are the whole width, so that plots of one page compare.
  const step = width / 99;
  const from = 100 - values.length;
  let path = "";
  values.forEach((value, at) => {
    if (value === null) return;
    const x = ((from + at) * step).toFixed(1);
    const y = (height - 2 - (value / top) * (height - 4)).toFixed(1);
    path += `${path && values[at - 1] !== null ? "L" : "M"}${x} ${y}`;
  });
  return h("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", preserveAspectRatio: "none",
    "aria-label": `${label}, at most ${number(top)} in ten minutes` }, h("path", { d: path }));
}

/** Adds the plots of all series whose names begin with `start`. */
export function total(plots, start) {
  const all = Object.entries(plots ?? {}).filter(([name]) => name.startsWith(start));
  if (!all.length) return [];
  return all[0][1].map((_, at) => all.reduce((sum, [, values]) => sum + (values[at] ?? 0), 0));
}

/** `kind.group` of an object, as paths have it. */
export const typeOf = (object) => {
  const group = object.apiVersion.includes("/") ? `.${object.apiVersion.split("/")[0]}` : "";
  return object.kind.toLowerCase() + group;
};

/** The link to `view` of an object. */
export const linkTo = (view, type, namespace, name) =>
  `#/${[view, type, namespace, name].filter(Boolean).map(encodeURIComponent).join("/")}`;

export const place = (object) => (object.namespace ? `${object.namespace}/` : "") + object.name;

/** Whether all words of the filter are in `text`. */
export function matches(filter, ...texts) {
  if (!filter) return true;
  const text = texts.join(" ").toLowerCase();
  return filter.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** The head of a view: title, numbers, and a filter. */
export function head(title, about, state, extra) {
  const filter = state && h("input", { id: "filter", type: "search", placeholder: "Filter  ( / )", "aria-label": "Filter", value: state.query.get("q") ?? "",
    oninput: (event) => state.set("q", event.target.value) });
  return h("div", { class: "head" }, h("div", {}, h("h1", {}, title), about && h("p", { class: "about" }, about)), h("div", { class: "tools" }, extra, filter));
}

/** What the answer leaves out. */
export function withheld(data) {
  const left = data.withheld;
  if (!left || left.length === 0) return "";
  const text = Array.isArray(left) ? left.join("; ") : `${left} entries name objects that you may not get`;
  return h("p", { class: "withheld" }, `Left out: ${text}.`);
}

export const sub = (...text) => h("span", { class: "sub" }, text);
export const kind = (...text) => h("span", { class: "kind" }, text);
export const back = (view, title) => h("a", { class: "back", href: `#/${view}` }, `‹ ${title}`);
export const card = (title, ...content) => h("section", { class: "card" }, title && h("h2", {}, title), content);

export const empty = (title, text) => h("div", { class: "empty" }, h("strong", {}, title), h("p", {}, text));
