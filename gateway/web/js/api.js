// Requests to the HTTP API, with every failure turned into a sentence for a person.

import { text } from "./page.js";

/**
 * @param {string} method
 * @param {string} path
 * @param {string} token admin key or host token
 * @param {object} [body]
 * @returns {Promise<{ ok: boolean, body: any, message: string, errors: { pointer: string, detail: string }[] }>}
 */
export async function call(method, path, token, body) {
  try {
    const answer = await fetch(path, {
      method,
      headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
      body: JSON.stringify(body ?? {}),
    });
    const said = await answer.json().catch(() => ({}));
    return { ok: answer.ok, body: said, message: answer.ok ? "" : explain(said, method), errors: said.errors ?? [] };
  } catch {
    return { ok: false, body: {}, message: text("unreachable"), errors: [] };
  }
}

/** Our words where we have them; the server's own, which are exact but English, where not.
 * @param {any} problem
 * @param {string} method
 */
function explain(problem, method) {
  const kind = String(problem.type ?? "").split(/[/:#]/).pop();
  // What is made is made with the admin key, which does not expire as a host token does.
  const name = kind === "credentials" && method === "POST" ? "problem_admin-key" : `problem_${kind}`;
  const known = text(name);
  return known === name ? (problem.detail ?? text("unreachable")) : known;
}
