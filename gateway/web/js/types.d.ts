// The shapes that travel between the pages and the gateway (gateway/PROTOCOL.md), for the type checker only.

export type Reaction = { key: string; emoji: string; label: string };
export type Totals = Record<string, number>;
export type State = "open" | "paused" | "closed";
export type Room = { title: string; palette: Reaction[]; cooldown_ms: number; state: State };
export type RoomFrame = Room & { totals: Totals };
export type Refused = { seq: number; why: string; retry_ms?: number };
export type Audience = { people: number; taps_per_second: number };
export type Bye = { why: string; retry_ms?: number };
export type Tap = { key: string; seq: number; age_ms?: number };
export type Join = { client: string; page: string; role: string; token: string | null };

export type ServerFrame = {
  room?: RoomFrame;
  tick?: { totals: Totals };
  ack?: number;
  refused?: Refused;
  audience?: Audience;
  pong?: number;
  time?: number;
  bye?: Bye;
};
export type ClientFrame = { join: Join } | { tap: Tap } | { ping: 1 };

/** A reading of both clocks: a sleeping phone stops the steady one, a person may set the wall's. */
export type Moment = { wall: number; steady: number };

/** One way to the gateway: a WebSocket, or the fallback. */
export type Transport = { send(frame: ClientFrame): void; close(): void };
export type Listener = {
  frame(frame: ServerFrame): void;
  closed(how: { code: number; opened: boolean }): void;
};
export type Open = (code: string, join: Join, listener: Listener) => Transport;

export type Status =
  | { name: "connecting" }
  | { name: "joined"; way: "socket" | "stream"; hop: string }
  | { name: "waiting" }
  | { name: "ended"; why: "missing" | "refused" | "broken" };

/** What the server wrote into the page. */
export type Data = {
  lang: string;
  public_url: string;
  code: string;
  room: Room;
  palette?: Reaction[];
  slides?: string | null;
  refused_slides?: string | null;
  texts: Record<string, string>;
};
