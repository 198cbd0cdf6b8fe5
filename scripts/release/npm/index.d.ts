/** Attributes of requests, or of the objects of events; an absent one matches all. */
export interface Match {
  verb?: string;
  resource?: string;
  subresource?: string;
  namespace?: string;
  name?: string;
  client?: string;
  writes?: boolean;
  except?: string[];
  nth?: number;
}

export type Reject = "conflict" | "expired" | "throttled" | "internalError" | { code: number; message: string };

/** The failure of a request. Durations are texts such as `500ms`. */
export type RequestFault =
  | "reset"
  | "loseAnswer"
  | "hang"
  | "hangAfterwards"
  | { reject: Reject }
  | { delay: string }
  | { delayUpTo: string };

/** The failure of a watch at an event. */
export type EventFault = "close" | "expire" | { delay: string } | { delayUpTo: string } | { drop: string } | { coalesce: string };

/** The state that a lagging watch cache shows to matching requests: of now, of a revision, or before the latest changes. */
export type View = "now" | { at: number } | { behind: number };

/** A rule has one of `fault`, `event` and `view`; a view has no `times`. */
export interface Rule {
  match?: Match;
  fault?: RequestFault;
  event?: EventFault;
  view?: View;
  times?: number;
}

export interface RequestRecord {
  verb: string;
  resource: string;
  path: string;
  userAgent: string;
  user: string;
  status: number;
  revision: number;
  contentType?: string;
  /** JSON, else a text, else `{ base64 }`; null if it is empty. Absent unless `keepBodies` was called. */
  body?: unknown;
  answer?: unknown;
}

export class Fault {
  hits(): Promise<number>;
  remove(): Promise<void>;
}

export class Cluster {
  readonly url: string;
  /** The path of a file with the credentials of an administrator. */
  readonly kubeconfig: string;
  namespace(prefix?: string): Promise<string>;
  fault(rule: Rule): Promise<Fault>;
  watches(plural: string, action: "stall" | "resume" | "break"): Promise<void>;
  requests(): Promise<RequestRecord[]>;
  keepBodies(kept?: boolean): Promise<void>;
  clearRequests(): Promise<void>;
  snapshot(): Promise<number>;
  restore(snapshot: number): Promise<void>;
  stop(): Promise<void>;
}

export class Server extends Cluster {
  now(): Promise<string>;
  advance(by: string): Promise<void>;
  stopTime(): Promise<void>;
  resumeTime(): Promise<void>;
  fork(options?: { snapshot?: number; still?: boolean }): Promise<Cluster>;
}

export interface Options {
  nodes?: number;
  controllers?: string;
  /** Release of Kubernetes to serve, such as `1.34`. */
  kubernetesVersion?: string;
  apply?: string[];
  args?: string[];
}

/** A module with hooks: jest's and vitest's names, or those of `node:test`. */
export interface Runner {
  beforeAll?(run: () => Promise<void>): void;
  before?(run: () => Promise<void>): void;
  beforeEach?(run: () => Promise<void>): void;
  afterEach?(run: () => Promise<void>): void;
  afterAll?(run: () => Promise<void>): void;
  after?(run: () => Promise<void>): void;
}

export type Prepare = (server: Server) => Promise<void>;

export function start(options?: Options): Promise<Server>;
/** A fork of one server for each test. */
export function forks(options?: Options, prepare?: Prepare, runner?: Runner): () => Cluster;
/** A namespace of one server for each test. */
export function namespaces(options?: Options, prepare?: Prepare, runner?: Runner): () => { server: Server; name: string };
export function path(): string;
