// Random ids. getRandomValues is there on plain HTTP too (a LAN address); crypto.randomUUID is not.

/** @param {number} bytes */
export const hex = (bytes) =>
  Array.from(crypto.getRandomValues(new Uint8Array(bytes)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");

/** The browser's id: stored, so that the cooldown and the head count know a phone again. */
export function clientId() {
  const name = "uproar.client";
  const fresh = hex(16);
  try {
    const stored = localStorage.getItem(name) ?? "";
    if (/^[0-9a-f]{32}$/.test(stored)) return stored;
    localStorage.setItem(name, fresh);
  } catch {
    // Storage is switched off: then each page is a phone of its own.
  }
  return fresh;
}
