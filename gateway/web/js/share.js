// A room's links, with copying, and its QR code.

import { get, make, text } from "./page.js";

/** The clipboard is for secure pages only; on a LAN address the old command still copies.
 * @param {HTMLInputElement} field
 */
async function copy(field) {
  const { type } = field;
  // A masked field cannot be copied from.
  field.type = "text";
  field.select();
  try {
    await navigator.clipboard.writeText(field.value);
    return true;
  } catch {
    return document.execCommand("copy");
  } finally {
    field.type = type;
  }
}

/**
 * @param {string} code
 * @param {Record<string, string>} links by kind: audience, stage, host
 */
export function share(code, links) {
  const rows = ["audience", "stage", "host"].map((kind) => {
    const link = links[kind];
    const field = make("input", { readonly: "", value: link, id: `link-${kind}`, dir: "ltr", autocomplete: "off", spellcheck: "false" });
    // Whoever reads the host's link from a shared screen could run the room.
    if (kind === "host") field.type = "password";
    field.addEventListener("focus", () => field.select());
    const button = make("button", { type: "button", class: "button" }, text("copy"));
    button.addEventListener("click", async () => {
      button.textContent = text((await copy(field)) ? "copied" : "copy_by_hand");
      setTimeout(() => (button.textContent = text("copy")), 2000);
    });
    const open = make("a", { href: link, target: "_blank", rel: "noopener" }, text("open"));
    const name = make("label", { for: field.id }, text(`link_${kind}`));
    return make("div", { class: "link" }, name, make("div", { class: "entry" }, field, button, open));
  });
  get("links").replaceChildren(...rows);
  const qr = /** @type {HTMLImageElement} */ (get("qr"));
  qr.src = `/v1/rooms/${code}/qr.svg`;
  qr.alt = text("qr", { link: links.audience });
}
