// A dialog: the browser's own, which keeps the focus inside and closes with Escape.

import { h, icon, replace } from "../core/dom.js";

export function openDialog(title) {
  const heading = h("h2", { id: "dialog-title" }, title);
  const body = h("div", { class: "dialog-body" });
  const row = h("div", { class: "dialog-buttons" });
  const element = h("dialog", { class: "dialog", "aria-labelledby": "dialog-title" });
  const closing = h("button", { class: "button icon-only quiet", type: "button", "aria-label": "Close", on: { click: () => element.close() } }, icon("close"));
  element.append(h("header", { class: "dialog-head" }, heading, closing), body, row);
  const before = document.activeElement;
  element.addEventListener("close", () => {
    element.remove();
    before?.focus?.();
  });
  element.addEventListener("click", (event) => event.target === element && element.close());
  document.body.append(element);
  element.showModal();
  return {
    element,
    title: (text) => (heading.textContent = text),
    say: (...content) => replace(body, ...content),
    /** Each is ``[text, act, kind]``; the last one is what Enter does in a field. */
    buttons(...wanted) {
      const made = wanted.map(([text, act, kind = ""]) => h("button", { class: `button ${kind}`, type: "button", on: { click: act } }, text));
      replace(row, made);
      body.onkeydown = (event) => {
        if (event.key !== "Enter" || event.target.tagName !== "INPUT") return;
        event.preventDefault();
        made.at(-1)?.click();
      };
      return made;
    },
    close: () => element.close(),
    get open() {
      return element.open;
    },
  };
}
