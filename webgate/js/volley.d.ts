// Types of volley.js, the client of package volley for browsers.

/** Options of {@link dial}. */
export interface Options {
  /** Goes to the server as the parameter "ticket" of the URL, again with each redial. */
  ticket?: string;
  /** SHA-256 of the server's certificate in base64, for a certificate of webgate.DevCertificate. */
  certificateHash?: string;
  /** Which transports to try, in this order. Default: ["webtransport", "websocket"]. */
  transports?: ("webtransport" | "websocket")[];
  /** How long each transport may take to connect, in milliseconds. Default 5000. */
  timeout?: number;
  /** How long to redial after a session is lost, in milliseconds. 0: not at all. Default 60000. */
  redial?: number;
  /**
   * The largest message in bytes, both ways, as the server's Config.MaxMessageSize. Default
   * 16384. More than 65536 is a RangeError of dial.
   */
  maxMessageSize?: number;
  /** As the server's Config.FragmentSize. Default 1024. */
  fragmentSize?: number;
  /** As the server's Config.ProtocolID. Default 0, which goes with any. */
  protocol?: bigint | number;
}

/** What became of a message. */
export interface Receipt {
  /** Whether the server's connection has queued it for Read. Some that are not known to be delivered were. */
  delivered: boolean;
  /** Milliseconds from send to the acknowledgement, which may have waited for a message; 0 if it is lost. */
  rtt: number;
}

/** Figures of a connection, over all of its sessions where that makes sense. */
export interface Stats {
  /** What is below the present session; "" while there is none. */
  transport: "webtransport" | "websocket" | "";
  /** Smoothed round-trip time in milliseconds, without waits; 0 before the first sample. */
  rtt: number;
  /** Mean deviation of the round-trip time in milliseconds. */
  jitter: number;
  /** Share of the last 64 messages that are lost, 0 to 1. */
  loss: number;
  /** Messages without a receipt yet. */
  unsettled: number;
  /** Messages. */
  sent: number;
  received: number;
  delivered: number;
  lost: number;
  /** Bytes of messages. */
  bytesSent: number;
  bytesReceived: number;
  /** Datagrams that the browser did not send in time. */
  dropped: number;
  /** Sessions after the first. */
  redials: number;
}

/** A connection to a server: a session, and the next one if that is lost. */
export interface Connection {
  readonly state: "dialing" | "open" | "redialing" | "closed";
  /** What is below the present session; "" while there is none. */
  readonly transport: "webtransport" | "websocket" | "";
  readonly maxMessageSize: number;
  /** Is called with each message. Up to 1024 that come before it is set wait for it. */
  onmessage: ((bytes: Uint8Array) => void) | null;
  /** Is called when there is a new session in the place of a lost one. */
  onredial: (() => void) | null;
  /** Is called once, at the end. The reason is the server's or that of close; "" if there is none. */
  onclose: ((end: { reason: string; error: Error | null }) => void) | null;
  /**
   * Sends a message of 1 to maxMessageSize bytes, once, and resolves with its receipt. While
   * there is no session the message is lost. Rejects after the end, and for other arguments.
   */
  send(bytes: Uint8Array | ArrayBuffer): Promise<Receipt>;
  stats(): Stats;
  /** Ends the connection and tells the server, with a reason of up to 64 bytes. */
  close(reason?: string): Promise<void>;
}

/** Connects to a server of package webgate, and resolves once that has answered. */
export function dial(url: string, options?: Options): Promise<Connection>;
