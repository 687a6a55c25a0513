// How a page that may only look gets leave to act.

import { keepToken, mayChange } from "../core/api.js";
import { h } from "../core/dom.js";
import { openDialog } from "./dialog.js";

export function askForToken() {
  const input = h("input", { class: "input mono", type: "password", name: "token", autocomplete: "off", spellcheck: "false", "aria-label": "Token", required: true });
  const dialog = openDialog("This page is read only");
  dialog.say(
    h("p", {}, "Savepoints, stop and cancel need the job's token, so that no other page in your browser can send them. So do state and options, which are for you alone."),
    h("p", {}, "The easy way: run ", h("code", {}, "beadline list"), " in a terminal and open the address that it prints. It ends in ", h("code", {}, "#token=…"), "."),
    h("label", { class: "field" }, h("span", {}, "Or paste the token here"), input),
  );
  dialog.buttons(["Close", () => dialog.close()], [
    "Use token",
    () => {
      const text = input.value.trim().replace(/^.*token=/, "");
      if (!text) return input.focus();
      keepToken(text);
      if (mayChange()) dialog.close();
    },
    "primary",
  ]);
  input.focus();
}
