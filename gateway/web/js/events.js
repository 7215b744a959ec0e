// Reads a stream of server-sent events, in whatever pieces the network hands it over.

/**
 * @param {(data: string) => void} heard called with the data of each event
 * @returns {(piece: string) => void}
 */
export function eventReader(heard) {
  let rest = "";
  /** @type {string[]} */
  let data = [];
  return (piece) => {
    rest += piece;
    // The last line may be unfinished; a CR at the very end may be half of a CRLF.
    const lines = rest.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        if (data.length) heard(data.join("\n"));
        data = [];
      } else if (line.startsWith("data:")) {
        data.push(line.slice(line[5] === " " ? 6 : 5));
      }
    }
  };
}
