// Makes elements. Text always goes in as text, never as markup, so that no name of a job or key can become code.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === "style") {
      // Through the object model: a strict Content-Security-Policy refuses style attributes.
      for (const [property, setting] of Object.entries(value)) element.style.setProperty(property, setting);
    } else {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
export const svg = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

/** Changes text only if it differs: nothing is laid out again for a number that stayed. */
export function say(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

export function replace(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const ICONS = {
  sun: "M8 4.6a3.4 3.4 0 1 0 0 6.8 3.4 3.4 0 0 0 0-6.8M8 .8v1.6M8 13.6v1.6M.8 8h1.6M13.6 8h1.6M2.9 2.9l1.1 1.1M12 12l1.1 1.1M2.9 13.1 4 12M12 4l1.1-1.1",
  moon: "M13.2 9.8A5.8 5.8 0 0 1 6.2 2.8a5.8 5.8 0 1 0 7 7Z",
  half: "M8 2a6 6 0 1 0 0 12ZM8 2a6 6 0 1 1 0 12",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  fit: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  copy: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8Z",
  check: "m3 8.5 3.2 3.2L13 4.8",
  chevron: "m6 3.5 4.5 4.5L6 12.5",
  close: "m4 4 8 8M12 4l-8 8",
  key: "M10.5 2.5a3 3 0 1 0 0 6 3 3 0 0 0 0-6ZM8.3 7.7 2.8 13.2M4.6 11.4l1.7 1.7",
  left: "M10 3.5 5.5 8l4.5 4.5",
  right: "M6 3.5 10.5 8 6 12.5",
};

export function icon(name) {
  return svg("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));
}

/** A button that copies; it says so for a moment, to eyes and to screen readers. */
export function copyButton(text, label = "Copy") {
  const word = h("span", { "aria-live": "polite" }, label);
  const button = h("button", { class: "button small", type: "button" }, icon("copy"), word);
  button.addEventListener("click", async () => {
    const done = await copy(text);
    say(word, done ? "Copied" : "Press Ctrl+C");
    setTimeout(() => say(word, label), 1800);
  });
  return button;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without a secure context there is no clipboard interface: select the text, so that the keys can copy it.
    const box = h("textarea", { class: "off-screen", readonly: true, "aria-hidden": "true" });
    box.value = text;
    (document.querySelector("dialog[open]") ?? document.body).append(box);
    box.select();
    const done = document.execCommand("copy");
    box.remove();
    return done;
  }
}

export const empty = (title, text) => h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), text && h("p", {}, text));

export function card(title, ...children) {
  const note = h("span", { class: "card-note" });
  const tools = h("div", { class: "card-tools" });
  const body = h("div", { class: "card-body" }, ...children);
  const section = h("section", { class: "card", "aria-label": title }, h("header", { class: "card-head" }, h("h2", {}, title), note, tools), body);
  return { section, body, note, tools };
}

/** The present value of a colour of the style sheet, for what is drawn on a canvas. */
export function colours(...names) {
  const probe = h("span", { class: "off-screen" });
  document.body.append(probe);
  const found = names.map((name) => {
    probe.style.setProperty("color", `var(--${name})`);
    return getComputedStyle(probe).color;
  });
  probe.remove();
  return found;
}

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
