// The question to `steersman ui`, and its answer as lines. Without React, so that Node alone can test it.

/**
 * @typedef {{ kind: string, apiVersion: string, namespace?: string, name: string }} Subject
 * @typedef {{ code: string, role: "cause" | "wait" | "fact", message: string, by?: string, who?: string, since?: string, nextTry?: string }} Reason
 * @typedef {{ object: Subject, state: string, since?: string, reasons?: Reason[], waitsFor?: Answer[] }} Answer
 * @typedef {{ stuck: boolean, absent: boolean, leader: string, answers: Answer[], withoutLeader?: string, error?: string }} Report
 * @typedef {{ depth: number, object: Subject, state: string, since?: string, reasons: Reason[] }} Line
 */

/**
 * The base of an address that a person typed.
 * @param {string | undefined} text
 * @returns {string} without the path of the page; empty if it is no address
 */
export function base(text) {
  let url;
  try {
    url = new URL((text ?? "").trim());
  } catch {
    return "";
  }
  return url.protocol === "http:" || url.protocol === "https:" ? url.origin : "";
}

/**
 * Kind, namespace and name of an object, as paths of Steersman have them.
 * @param {Subject} object
 */
function place(object) {
  const group = object.apiVersion.includes("/") ? `.${object.apiVersion.split("/")[0]}` : "";
  const parts = [object.kind.toLowerCase() + group, object.namespace, object.name];
  return parts.filter(Boolean).map((part) => encodeURIComponent(part ?? "")).join("/");
}

/**
 * The data about an object.
 * @param {string} address
 * @param {Subject} object
 */
export const question = (address, object) => `${base(address)}/debug/ui/stuck/${place(object)}`;

/**
 * The view of an object on the page.
 * @param {string} address
 * @param {Subject} object
 */
export const page = (address, object) => `${base(address)}/ui/#/why/${place(object)}`;

/**
 * The command that serves the answers for a cluster.
 * @param {string | undefined} address
 * @param {string} origin of the page that asks
 */
export function command(address, origin) {
  const known = base(address);
  const port = (known && new URL(known).port) || "8042";
  return `steersman ui --port ${port} --allow-origin ${origin}`;
}

/**
 * Asks why an object does not move.
 * @param {(url: string, options: object) => Promise<{ ok: boolean, status: number, text: () => Promise<string> }>} get
 * @param {string} address
 * @param {Subject} object
 * @param {string} origin
 * @param {AbortSignal} [signal]
 * @returns {Promise<Report>}
 */
export async function ask(get, address, object, origin, signal) {
  let answer;
  try {
    answer = await get(question(address, object), { credentials: "omit", headers: { Accept: "application/json" }, signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    // A browser gives the same error for a refused connection and for a refused origin.
    throw new Error(`Nothing at ${base(address)} answers this page. Start it: ${command(address, origin)}`);
  }
  const text = await answer.text();
  /** @type {Report} */
  let report;
  try {
    report = JSON.parse(text);
  } catch {
    throw new Error(`${base(address)} is not steersman ui: its answer ${answer.status} is no JSON`);
  }
  if (!answer.ok || report.error) throw new Error(report.error ?? `The answer is ${answer.status}`);
  return report;
}

/**
 * The chain of an answer from top to bottom.
 * @param {Answer} answer
 * @returns {Line[]}
 */
export function lines(answer, depth = 0) {
  const { object, state, since, reasons = [], waitsFor = [] } = answer;
  return [{ depth, object, state, since, reasons }, ...waitsFor.flatMap((below) => lines(below, depth + 1))];
}

/** @param {Subject} object */
export const title = (object) => `${object.kind} ${object.namespace ? `${object.namespace}/` : ""}${object.name}`;

/**
 * The answer in one sentence.
 * @param {Report} report
 */
export function verdict(report) {
  const answer = report.answers[0];
  if (!answer || report.absent) return "Nothing is known about this object.";
  if (!report.stuck) return "Nothing here needs a person.";
  const causes = lines(answer).flatMap((line) => line.reasons.filter((reason) => reason.role === "cause"));
  // The deepest object of the chain is what somebody can change.
  return causes.at(-1)?.message ?? answer.state;
}

/**
 * The source of an answer.
 * @param {Report} report
 */
export const source = (report) =>
  report.leader ? `Answer of the leader, ${report.leader}` : `Answer from API objects alone${report.withoutLeader ? `: ${report.withoutLeader}` : ""}`;
