// Elements, their update in place, and lists that make only the rows in sight.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "path", "rect", "line", "circle", "polyline", "defs", "pattern"]);
const HANDLERS = ["onclick", "oninput", "onsubmit", "onchange"];

/** An element. Properties that begin with `on` are handlers; `style` is an object. */
export function h(tag, props, ...children) {
  const made = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made[name] = value;
    else if (name === "style") Object.assign(made.style, value);
    else if (name === "value") made.value = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  append(made, children);
  return made;
}

function append(to, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(to, child);
    else if (child !== undefined && child !== null && child !== false && child !== "") to.append(child);
  }
}

/** Makes `old` equal to `next`, and keeps focus, selection and scroll positions. */
export function morph(old, next) {
  const same = old.nodeType === next.nodeType && old.nodeName === next.nodeName;
  if (!same || old.dataset?.key !== next.dataset?.key) return old.replaceWith(next);
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== next.data) old.data = next.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (name !== "style" && !next.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  // The policy of the page forbids the attribute, not the property.
  if (old.style.cssText !== next.style.cssText) old.style.cssText = next.style.cssText;
  for (const name of HANDLERS) old[name] = next[name];
  if (old.nodeName === "INPUT" && old !== document.activeElement) old.value = next.value;
  morphChildren(old, [...next.childNodes]);
}

/** Makes the children of `old` equal to `next`. */
export function morphChildren(old, next) {
  const present = [...old.childNodes];
  next.forEach((child, at) => (present[at] ? morph(present[at], child) : old.append(child)));
  present.slice(next.length).forEach((child) => child.remove());
}

const narrow = matchMedia("(max-width: 760px)");

/** A list of rows with one height; `height` is that of a wide and of a narrow window. */
export function rows(items, height, row, label) {
  const each = narrow.matches ? height[1] : height[0];
  const list = document.querySelector(".rows");
  const above = list ? list.getBoundingClientRect().top : 220;
  const count = Math.ceil(innerHeight / each) + 12;
  const first = Math.max(0, Math.min(Math.floor(-above / each) - 6, items.length - count));
  const shown = items.slice(first, first + count);
  const style = { paddingTop: `${first * each}px`, height: `${items.length * each}px` };
  const made = shown.map((item, at) => {
    const element = row(item);
    element.setAttribute("role", "listitem");
    element.setAttribute("aria-posinset", first + at + 1);
    element.setAttribute("aria-setsize", items.length);
    element.style.height = `${each}px`;
    return element;
  });
  return h("div", { class: "rows", role: "list", "aria-label": label, style }, made);
}
