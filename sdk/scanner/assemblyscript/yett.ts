// yett.ts: write a module for ABI v1 (a scanner or an authorizer) in AssemblyScript with asc and nothing else.
//
//   import { Fault, In, Json, Kind, Module, Out, register, Severity, Trigger } from "./yett";
//   export { yett_abi_v1, yett_buffer, yett_init, yett_scan, yett_describe } from "./yett";
//
//   class Codename extends Module {
//     constructor() {
//       super("codename", "1.0.0");
//       this.kinds = [new Kind("CODENAME", Severity.High)];
//       this.triggers = [Trigger.folded("bluebird")];
//     }
//     scan(input: In, out: Out): Fault | null {
//       for (let i = 0, n = input.hits(); i < n; i++) {
//         const hit = input.hit(i);
//         out.redact("CODENAME", hit.start, hit.end, 1);
//       }
//       return null;
//     }
//   }
//   register(new Codename());
//
// Build: asc main.ts -O3 --runtime minimal --exportStart _initialize --use abort=yett/abort -o codename.wasm
//
// (With --use abort= where this file does not lie beside main.ts.) An authorizer exports yett_check instead of (or beside) yett_scan. Text comes in through In, findings leave through Out;
// nothing else is to be had. Any mistake (an undeclared kind, a span outside the window, an index out of bounds) fails the
// call, which is never taken for "clean".

export enum Severity { Info, Low, Medium, High, Critical }
/** What a scanner suggests to do about a finding; the operator's configuration decides. */
export enum Action { Flag, Redact, Replace, Deny }
/** What an authorizer says about a call. */
export enum Effect { Abstain, Permit, Deny, Defer }
/** Statuses of a Fault; from Author on they are yours. */
export enum Status { Ok = 0, BadConfig = 1, Unsupported = 2, Internal = 3, Author = 64 }
export enum Flags { First = 1, Final = 2, Stream = 4, UTF8 = 8, Truncated = 16, DryRun = 32, HitsComplete = 64 }
/** How a scanner works on a text that comes in pieces. Window: no finding is longer than lookbehind. */
export enum Stream { None, Window, Stateful }

const MAX_FINDINGS = 256;
const MAX_DEPTH = 128; // of JSON; the host lets 64 pass in what a call carries
const MAX_STATE = 4 << 10;
const MAX_PUT = 64 << 10;
const MAX_REPLACEMENT = 4 << 10;

/** Fails a call. */
export class Fault {
  constructor(public text: string, public status: i32 = Status.Internal) {}
}

/** One kind of finding, UPPER_SNAKE, and its default severity. */
export class Kind {
  utf8: ArrayBuffer;
  constructor(public name: string, public severity: Severity) {
    this.utf8 = String.UTF8.encode(name);
  }
}

/**
 * Something without which the scanner can find nothing. A hit of a literal is each of its occurrences, overlapping ones
 * included; a hit of a class is each maximal run of at least min bytes.
 */
export class Trigger {
  bytes: ArrayBuffer;
  private constructor(public text: string, public fold: bool, public bits: u8, public min: i32) {
    this.bytes = String.UTF8.encode(text);
  }
  /** These very bytes. */
  static literal(text: string): Trigger { return new Trigger(text, false, 0, 0); }
  /** These letters in any case (ASCII). */
  static folded(text: string): Trigger { return new Trigger(text, true, 0, 0); }
  /** 0-9 */
  static digits(min: i32): Trigger { return new Trigger("digits", false, DIGITS, min); }
  /** 0-9 a-f A-F */
  static hex(min: i32): Trigger { return new Trigger("hex", false, HEX, min); }
  /** A-Z a-z 0-9 + / = - _ */
  static base64(min: i32): Trigger { return new Trigger("base64", false, BASE64, min); }
  /** The byte @ */
  static at(min: i32): Trigger { return new Trigger("at", false, AT, min); }
}

/**
 * A list of strings in the configuration, each of which becomes a trigger: the names that lead to it, each after a slash
 * ("/words"). config must declare the list. Hits number its entries behind the triggers, list after list.
 */
export class TriggersFrom {
  private constructor(public path: string, public fold: bool) {}
  /** These very bytes. */
  static literal(path: string): TriggersFrom { return new TriggersFrom(path, false); }
  /** These letters in any case (ASCII). */
  static folded(path: string): TriggersFrom { return new TriggersFrom(path, true); }
}

/** What a check answers. Every effect but Abstain needs a code in UPPER_SNAKE. */
export class Decision {
  effect: Effect = Effect.Abstain;
  code: string = "";
  reason: string = "";
  /** How long the answer may be kept, ms; 0: not at all. */
  ttlMs: i32 = 0;
}

/** A module. The host may set everything back to what init left after each call: keep nothing. */
export class Module {
  /** Every kind that scan may emit. */
  kinds: Kind[] = [];
  /** None: scan sees every text, and there are no hits. */
  triggers: Trigger[] = [];
  /** Lists of the configuration whose entries are triggers too. A word that scan knows by itself must stand in triggers. */
  triggersFrom: TriggersFrom[] = [];
  stream: Stream = Stream.None;
  /** Bytes, for Stream.Window. */
  lookbehind: i32 = 0;
  /** JSON Schema of the configuration, as JSON; empty: any object that init accepts. */
  config: string = "";
  /** What the module cannot work without; 0: the host's default is enough. */
  memoryMiB: i32 = 0;
  deadlineMs: i32 = 0;

  constructor(public name: string, public version: string) {}

  /** Receives the operator's configuration, an object, once before all else. Here: only {} is accepted. */
  init(config: Json): Fault | null {
    return config.names.length ? new Fault(config.names[0] + ": this module has no configuration") : null;
  }
  /** Looks at one text. */
  scan(input: In, out: Out): Fault | null {
    return new Fault("this module only checks", Status.Unsupported);
  }
  /** Decides one call, given as JSON: agent_id, session_id, tool_id, operation, call_id, args, context. */
  check(call: Json, decision: Decision): Fault | null {
    return new Fault("this module only scans", Status.Unsupported);
  }
}

let module: Module | null = null;

/** Makes a module that of this program; call it once, at the top level. */
export function register(m: Module): void {
  assert(module == null, "register called twice");
  module = m;
}

// ------------------------------------------------------------------------------------------------- texts and findings

/** One occurrence of a trigger: its index (entries of triggersFrom follow the triggers) and byte offsets into the text. */
@unmanaged
export class Hit {
  trigger: i32;
  start: i32;
  end: i32;
}

/** One text to scan, valid until scan returns. */
export class In {
  private count: i32 = -1;
  constructor(
    public text: Uint8Array,
    /** What the last call of a stateful stream kept with Out.setState. */
    public state: Uint8Array,
    public flags: i32,
    private raw: usize,
    private rawCount: i32,
  ) {}

  has(flags: i32): bool { return (this.flags & flags) == flags; }

  /**
   * The number of hits of all triggers. hit(i) gives them in order of start, then trigger. They are the host's where it
   * found them all and searched for here otherwise. Hits of the host that do not fit the text fail the call.
   */
  hits(): i32 {
    if (this.count < 0) {
      hitCount = 0;
      if (!this.has(Flags.HitsComplete)) search(this.text);
      else if (!decode(this.text, this.raw, this.rawCount)) hitCount = 0;
      this.count = hitCount;
    }
    return this.count;
  }
  hit(i: i32): Hit {
    assert(i >= 0 && i < this.hits(), "no such hit");
    return hitAt(i);
  }
}

/** One span of the text. */
export class Finding {
  /** 0–1 */
  confidence: f32 = 1;
  /** Negative: the kind's own. */
  severity: i32 = -1;
  action: Action = Action.Redact;
  /** With Action.Replace. */
  replacement: string = "";
  declared: Kind | null = null;
  constructor(public kind: string, public start: i32, public end: i32) {}
}

/** What a scan found. */
export class Out {
  found: Finding[] = [];
  fault: Fault | null = null;
  state: Uint8Array | null = null;
  notes: string | null = null;
  constructor(private window: i32) {}

  /** Leaves the span in place. */
  flag(kind: string, start: i32, end: i32, confidence: f32): void {
    this.add(kind, start, end, confidence, Action.Flag, "");
  }
  /** Takes the span out. */
  redact(kind: string, start: i32, end: i32, confidence: f32): void {
    this.add(kind, start, end, confidence, Action.Redact, "");
  }
  /** Puts something else in the span's place. */
  replace(kind: string, start: i32, end: i32, confidence: f32, replacement: string): void {
    this.add(kind, start, end, confidence, Action.Replace, replacement);
  }
  private add(kind: string, start: i32, end: i32, confidence: f32, action: Action, replacement: string): void {
    const f = new Finding(kind, start, end);
    f.confidence = confidence;
    f.action = action;
    f.replacement = replacement;
    this.emit(f);
  }

  /** Reports one finding. What the ABI does not allow fails the whole scan. */
  emit(f: Finding): void {
    const kinds = module!.kinds;
    for (let i = 0; i < kinds.length && f.declared == null; i++) {
      if (kinds[i].name == f.kind) f.declared = kinds[i];
    }
    const kind = f.declared;
    let why = "";
    if (kind == null) why = "is of an undeclared kind";
    else if (f.end == f.start) why = "is empty: a finding is of one byte or more";
    else if (f.start < 0 || f.end < f.start || f.end > this.window) why = "lies outside the window";
    else if (module!.stream == Stream.Window && f.end - f.start > module!.lookbehind) why = "is longer than lookbehind";
    else if (!(f.confidence >= 0 && f.confidence <= 1)) why = "has a confidence that is not 0–1";
    else if (f.severity > Severity.Critical || f.action < 0 || f.action > Action.Deny) why = "has a bad severity or action";
    else if (String.UTF8.byteLength(f.replacement) > MAX_REPLACEMENT) why = "has a replacement longer than 4096 bytes";
    else {
      if (f.severity < 0) f.severity = kind.severity;
      this.found.push(f);
      return;
    }
    this.fail("finding " + f.kind + " " + why);
  }

  /** Keeps at most 4096 bytes for the next call of a stateful stream. */
  setState(state: Uint8Array): void {
    if (state.length > MAX_STATE) this.fail("state longer than 4096 bytes");
    this.state = state.slice(0);
  }

  /** Attaches a JSON document of at most 65536 bytes to the record. */
  annotate(json: string): void {
    if (String.UTF8.byteLength(json) > MAX_PUT) this.fail("annotation longer than 65536 bytes");
    this.notes = json;
  }

  private fail(text: string): void {
    if (this.fault == null) this.fault = new Fault(text);
  }
}

function after(a: Finding, b: Finding): i32 {
  if (a.start != b.start) return a.start - b.start;
  if (a.end != b.end) return a.end - b.end;
  return a.kind > b.kind ? 1 : a.kind < b.kind ? -1 : 0;
}

/** A stable merge sort: findings usually come in order, and that is seen first. */
function sorted(list: Finding[]): Finding[] {
  let i = 1;
  while (i < list.length && after(list[i - 1], list[i]) <= 0) i++;
  if (i >= list.length) return list;
  const a = sorted(list.slice(0, list.length >> 1)), b = sorted(list.slice(list.length >> 1)), all: Finding[] = [];
  let x = 0, y = 0;
  while (x < a.length || y < b.length) {
    all.push(y == b.length || (x < a.length && after(a[x], b[y]) <= 0) ? a[x++] : b[y++]);
  }
  return all;
}

function same(a: Finding, b: Finding): bool {
  return after(a, b) == 0 && a.confidence == b.confidence && a.severity == b.severity && a.action == b.action &&
    a.replacement == b.replacement;
}

/** A replacement cannot cover several findings, so it counts as redaction. */
function harder(a: Action, b: Action): Action {
  if (a == Action.Replace) a = Action.Redact;
  if (b == Action.Replace) b = Action.Redact;
  return a > b ? a : b;
}

/** Sorts, drops repetitions and folds what is over the ABI's 256 findings into the last: it covers them all. */
function finish(found: Finding[]): Finding[] {
  const list = sorted(found), out: Finding[] = [];
  for (let i = 0; i < list.length; i++) {
    if (!i || !same(list[i - 1], list[i])) out.push(list[i]);
  }
  if (out.length <= MAX_FINDINGS) return out;
  const last = out[MAX_FINDINGS - 1];
  for (let i = MAX_FINDINGS; i < out.length; i++) {
    const f = out[i];
    last.end = max(last.end, f.end);
    last.confidence = max(last.confidence, f.confidence);
    last.severity = max(last.severity, f.severity);
    last.action = harder(last.action, f.action);
  }
  last.replacement = "";
  out.length = MAX_FINDINGS;
  log(1, "more findings than allowed: the last one covers the rest");
  return out;
}

function send(out: Out): void {
  const found = finish(out.found);
  for (let i = 0; i < found.length; i++) {
    const f = found[i], kind = f.declared!.utf8, repl = String.UTF8.encode(f.replacement);
    const stop = hostEmit(ptr(kind), kind.byteLength, f.start, f.end, f.confidence, f.severity, f.action, ptr(repl), repl.byteLength);
    if (stop) break; // the host has what it wants and says so
  }
  const state = out.state, notes = out.notes;
  if (state != null) hostPut(2, state.dataStart, state.length);
  if (notes != null) putText(3, notes);
}

// -------------------------------------------------------------------------------------------------------- the triggers

const DIGITS: u8 = 1;
const HEX: u8 = 2;
const BASE64: u8 = 4;
const AT: u8 = 8;

function classBits(c: u8): u8 {
  const low = c | 0x20;
  if (c >= 0x30 && c <= 0x39) return DIGITS | HEX | BASE64;
  if (low >= 0x61 && low <= 0x66) return HEX | BASE64;
  if (low >= 0x61 && low <= 0x7a) return BASE64;
  if (c == 0x2b || c == 0x2f || c == 0x3d || c == 0x2d || c == 0x5f) return BASE64;
  return c == 0x40 ? AT : 0;
}

// @ts-ignore: decorator
@inline
function fold(c: u8): u8 { return c >= 0x41 && c <= 0x5a ? c | 0x20 : c; }

const literals: i32[][] = []; // by first byte, case folded: triggers in order
const runs: i32[] = [];
const starts = new StaticArray<bool>(256); // whether a literal may start with the byte, or a run hold it

/** All triggers: those of the module, and behind them the entries of the lists that it names. */
let all: Trigger[] = [];
const MAX_ENTRY = 256;
const MAX_CONFIG_TRIGGERS = 10000;

function addTriggers(m: Module, config: Json): string {
  all = m.triggers.slice(0);
  for (let l = 0; l < m.triggersFrom.length; l++) {
    const from = m.triggersFrom[l], names = from.path.split("/").slice(1), field = names.join(".");
    let at: Json | null = config;
    for (let i = 0; i < names.length && at != null; i++) at = at.get(names[i]);
    if (at == null) continue;
    if (!at.isArray) return field + ": must be an array of strings";
    for (let i = 0; i < at.items.length; i++) {
      const entry = at.items[i], bytes = entry.isText ? String.UTF8.byteLength(entry.text) : 0;
      if (bytes < 1 || bytes > MAX_ENTRY) return field + "[" + i.toString() + "]: must be a string of 1 to 256 bytes";
      if (all.length - m.triggers.length == MAX_CONFIG_TRIGGERS) return field + ": more than 10000 entries in all lists of triggers together";
      all.push(from.fold ? Trigger.folded(entry.text) : Trigger.literal(entry.text));
    }
  }
  return compile();
}

function compile(): string {
  let bits: u8 = 0;
  for (let c = 0; c < 256; c++) literals.push([]);
  for (let i = 0; i < all.length; i++) {
    const t = all[i];
    if (t.bits) {
      if (t.min < 1) return "a trigger with a shortest run below 1";
      bits |= t.bits;
      runs.push(i);
    } else if (t.bytes.byteLength == 0) {
      return "an empty trigger";
    } else {
      literals[fold(load<u8>(ptr(t.bytes)))].push(i);
    }
  }
  for (let c = 0; c < 256; c++) starts[c] = literals[fold(<u8>c)].length > 0 || (classBits(<u8>c) & bits) != 0;
  return "";
}

/** Where the hit of a trigger that starts at the given offset ends, or -1. */
function match(t: Trigger, text: Uint8Array, at: i32): i32 {
  const n = text.length, base = text.dataStart;
  if (t.bits) {
    if (at > 0 && (classBits(load<u8>(base + at - 1)) & t.bits)) return -1;
    let end = at;
    while (end < n && (classBits(load<u8>(base + end)) & t.bits)) end++;
    return end - at >= t.min ? end : -1;
  }
  const length = t.bytes.byteLength, literal = ptr(t.bytes);
  if (length > n - at) return -1;
  for (let i = 0; i < length; i++) {
    const a = load<u8>(base + at + i), b = load<u8>(literal + i);
    if (a != b && !(t.fold && fold(a) == fold(b))) return -1;
  }
  return at + length;
}

function search(text: Uint8Array): void {
  const triggers = all, n = text.length;
  for (let i = 0; i < n; i++) {
    const c = load<u8>(text.dataStart + i);
    if (!starts[c]) continue;
    const list = literals[fold(c)];
    let l = 0, r = 0;
    while (l < list.length || r < runs.length) { // two lists, each in order of trigger
      let t = 0;
      if (r == runs.length || (l < list.length && list[l] < runs[r])) {
        t = list[l++];
      } else {
        t = runs[r++];
        if (!(classBits(c) & triggers[t].bits)) continue;
      }
      const end = match(triggers[t], text, i);
      if (end >= 0) addHit(t, i, end);
    }
  }
}

function decode(text: Uint8Array, raw: usize, count: i32): bool {
  const triggers = all;
  let ordered = true;
  for (let i = 0; i < count; i++, raw += 8) {
    const t = load<u32>(raw), at = load<u32>(raw, 4);
    const end = t < <u32>triggers.length && at < <u32>text.length ? match(triggers[t], text, at) : -1;
    if (end < 0) {
      fail(Status.Internal, "the host's hits do not fit the text");
      return false;
    }
    addHit(t, at, end);
    ordered = ordered && (i == 0 || hitAfter(i, i - 1));
  }
  if (!ordered) sortHits();
  return true;
}

function hitAfter(a: i32, b: i32): bool {
  const x = hitAt(a), y = hitAt(b);
  return x.start != y.start ? x.start > y.start : x.trigger > y.trigger;
}

/** Puts hits that came in no order into it, each once. */
function sortHits(): void {
  const keys = new StaticArray<u64>(hitCount), ends = new Map<u64, i32>();
  for (let i = 0; i < hitCount; i++) {
    keys[i] = (<u64>hitAt(i).start << 32) | hitAt(i).trigger;
    ends.set(keys[i], hitAt(i).end);
  }
  keys.sort();
  const n = hitCount;
  hitCount = 0;
  for (let i = 0; i < n; i++) {
    if (!i || keys[i] != keys[i - 1]) addHit(<i32>keys[i], <i32>(keys[i] >> 32), ends.get(keys[i]));
  }
}

const HIT_SIZE: i32 = 12;
let hitBuffer: ArrayBuffer = new ArrayBuffer(4096 * HIT_SIZE);
let hitCount: i32 = 0;

function hitAt(i: i32): Hit { return changetype<Hit>(ptr(hitBuffer) + i * HIT_SIZE); }

function addHit(trigger: i32, start: i32, end: i32): void {
  if ((hitCount + 1) * HIT_SIZE > hitBuffer.byteLength) {
    const more = new ArrayBuffer(hitBuffer.byteLength * 2);
    memory.copy(ptr(more), ptr(hitBuffer), hitBuffer.byteLength);
    hitBuffer = more;
  }
  const h = hitAt(hitCount++);
  h.trigger = trigger;
  h.start = start;
  h.end = end;
}

// --------------------------------------------------------------------------------------------------------------- JSON

export enum JsonType { Null, Bool, Number, Text, Array, Object }

/** A JSON value, read strictly: UTF-8, unique names, at most 128 levels. */
export class Json {
  /** Of a text, its content; of a number, how it was written. */
  text: string = "";
  bool: bool = false;
  /** Of an object, beside items. */
  names: string[] = [];
  items: Json[] = [];
  constructor(public type: JsonType) {}

  get isText(): bool { return this.type == JsonType.Text; }
  get isBool(): bool { return this.type == JsonType.Bool; }
  get isArray(): bool { return this.type == JsonType.Array; }
  get isObject(): bool { return this.type == JsonType.Object; }
  /** The number; NaN when it is none or out of range. */
  get number(): f64 { return this.type == JsonType.Number ? decimal(this.text) : NaN; }

  /** The member of that name, or null. */
  get(name: string): Json | null {
    const i = this.names.indexOf(name);
    return i < 0 ? null : this.items[i];
  }
}

/**
 * Exact for up to 15 digits and powers of ten up to 22; beyond that the last bits may differ.
 */
function decimal(s: string): f64 {
  let digits: u64 = 0, power = 0, e = 0, point = 0, exponent = false, negative = false;
  for (let i = 0; i < s.length; i++) {
    const c = s.charCodeAt(i);
    if (c == 0x2e) point = 1;
    else if ((c | 0x20) == 0x65) exponent = true;
    else if (c == 0x2d) negative = negative || exponent;
    else if (c == 0x2b) continue;
    else if (exponent) e = e < 100000 ? e * 10 + c - 0x30 : e;
    else if (digits < 1000000000000000000) {
      digits = digits * 10 + (c - 0x30);
      power -= point;
    } else power += 1 - point;
  }
  power += negative ? -e : e;
  let x = <f64>digits;
  while (power != 0 && x != 0) {
    const step = min(abs(power), 22);
    let scale: f64 = 1;
    for (let i = 0; i < step; i++) scale *= 10;
    x = power < 0 ? x / scale : x * scale;
    power += power < 0 ? step : -step;
    if (!isFinite(x)) return NaN;
  }
  return s.charCodeAt(0) == 0x2d ? -x : x;
}

/** Reads one object; null when it is none, or more than that. */
function parse(at: usize, n: i32): Json | null {
  const r = new Reader(at, at + n);
  if (!validUTF8(at, at + n)) return null;
  r.space();
  if (r.peek() != 0x7b) return null;
  const v = r.value(0);
  r.space();
  return r.bad || r.at != r.end ? null : v;
}

function validUTF8(p: usize, end: usize): bool {
  while (p < end) {
    const c = load<u8>(p++);
    if (c < 0x80) continue;
    const more: usize = c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : usize.MAX_VALUE;
    if (more > end - p) return false;
    const d = load<u8>(p);
    if ((c == 0xe0 && d < 0xa0) || (c == 0xed && d > 0x9f) || (c == 0xf0 && d < 0x90) || (c == 0xf4 && d > 0x8f)) return false;
    for (let i: usize = 0; i < more; i++) {
      if ((load<u8>(p++) & 0xc0) != 0x80) return false;
    }
  }
  return true;
}

class Reader {
  bad: bool = false;
  constructor(public at: usize, public end: usize) {}

  peek(): i32 { return this.at < this.end ? load<u8>(this.at) : -1; }
  eat(c: i32): bool {
    const found = this.peek() == c;
    if (found) this.at++;
    return found;
  }
  want(c: i32): void { if (!this.eat(c)) this.bad = true; }
  space(): void {
    for (let c = this.peek(); c == 0x20 || c == 0x09 || c == 0x0a || c == 0x0d; c = this.peek()) this.at++;
  }

  value(depth: i32): Json {
    if (depth > MAX_DEPTH) {
      this.bad = true;
      return new Json(JsonType.Null);
    }
    const c = this.peek();
    if (c == 0x7b) return this.list(JsonType.Object, 0x7d, depth);
    if (c == 0x5b) return this.list(JsonType.Array, 0x5d, depth);
    if (c == 0x22) {
      const v = new Json(JsonType.Text);
      v.text = this.string();
      return v;
    }
    if (c == 0x6e && this.word("null")) return new Json(JsonType.Null);
    if ((c == 0x74 && this.word("true")) || (c == 0x66 && this.word("false"))) {
      const v = new Json(JsonType.Bool);
      v.bool = c == 0x74;
      return v;
    }
    return this.number();
  }

  list(type: JsonType, closing: i32, depth: i32): Json {
    const v = new Json(type);
    this.at++;
    this.space();
    if (this.eat(closing)) return v;
    while (!this.bad) {
      this.space();
      if (type == JsonType.Object) {
        const name = this.string();
        this.space();
        this.want(0x3a);
        this.space();
        if (v.names.includes(name)) this.bad = true;
        v.names.push(name);
      }
      if (this.bad) break;
      v.items.push(this.value(depth + 1));
      this.space();
      if (this.eat(closing)) return v;
      this.want(0x2c);
    }
    return v;
  }

  word(w: string): bool {
    for (let i = 0; i < w.length; i++) this.want(w.charCodeAt(i));
    return true;
  }

  digits(): void {
    const start = this.at;
    for (let c = this.peek(); c >= 0x30 && c <= 0x39; c = this.peek()) this.at++;
    if (this.at == start) this.bad = true;
  }

  number(): Json {
    const v = new Json(JsonType.Number), start = this.at;
    this.eat(0x2d);
    if (!this.eat(0x30)) this.digits();
    if (this.eat(0x2e)) this.digits();
    if (this.eat(0x65) || this.eat(0x45)) {
      if (!this.eat(0x2b)) this.eat(0x2d);
      this.digits();
    }
    v.text = String.UTF8.decodeUnsafe(start, this.at - start);
    return v;
  }

  string(): string {
    this.want(0x22);
    let s = "", start = this.at;
    while (!this.bad) {
      const c = this.peek();
      if (c == 0x22 || c == 0x5c) {
        s += String.UTF8.decodeUnsafe(start, this.at - start);
        this.at++;
        if (c == 0x22) return s;
        s += this.escape();
        start = this.at;
      } else if (c < 0x20) {
        this.bad = true;
      } else {
        this.at++;
      }
    }
    return s;
  }

  escape(): string {
    const c = this.peek();
    this.at++;
    if (c == 0x75) {
      const u = this.hex4();
      if (u < 0xd800 || u > 0xdfff) return String.fromCharCode(u);
      this.want(0x5c);
      this.want(0x75);
      const low = this.hex4();
      if (u > 0xdbff || low < 0xdc00 || low > 0xdfff) this.bad = true;
      return String.fromCharCode(u, low);
    }
    const i = "\"\\/bfnrt".indexOf(String.fromCharCode(c));
    if (c < 0 || i < 0) {
      this.bad = true;
      return "";
    }
    return "\"\\/\b\f\n\r\t".charAt(i);
  }

  hex4(): i32 {
    let u = 0;
    for (let i = 0; i < 4; i++) {
      const c = this.peek(), low = c | 0x20;
      if (c >= 0x30 && c <= 0x39) u = (u << 4) | (c - 0x30);
      else if (low >= 0x61 && low <= 0x66) u = (u << 4) | (low - 0x57);
      else this.bad = true;
      this.at++;
    }
    return u;
  }
}

// ---------------------------------------------------------------------------------------------------------- the inside

// @ts-ignore: decorator
@external("yett_v1", "emit")
declare function hostEmit(kind: usize, kindN: i32, start: i32, end: i32, confidence: f32, severity: i32, action: i32, repl: usize, replN: i32): i32;
// @ts-ignore: decorator
@external("yett_v1", "decide")
declare function hostDecide(effect: i32, code: usize, codeN: i32, reason: usize, reasonN: i32, ttlMs: i32): i32;
// @ts-ignore: decorator
@external("yett_v1", "put")
declare function hostPut(slot: i32, p: usize, n: i32): i32;
// @ts-ignore: decorator
@external("yett_v1", "log")
declare function hostLog(level: i32, p: usize, n: i32): void;

// @ts-ignore: decorator
@inline
function ptr(b: ArrayBuffer): usize { return changetype<usize>(b); }

function putText(slot: i32, text: string): i32 {
  const b = String.UTF8.encode(text);
  return hostPut(slot, ptr(b), b.byteLength);
}

/** Writes a line to the operator's log; level 0 debug, 1 info, 2 warning, 3 error. */
export function log(level: i32, line: string): void {
  const b = String.UTF8.encode(line);
  hostLog(level, ptr(b), b.byteLength);
}

/** What asc calls when a check of its own fails: says where, and ends the call. */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  log(3, (message ? message : "abort") + " in " + (file ? file : "?") + " line " + line.toString());
  unreachable();
}

let failed = false;

/** Only the first text counts: it is the cause of what follows. */
function fail(status: i32, text: string): i32 {
  if (!failed) {
    const b = String.UTF8.encode(text);
    hostPut(0, ptr(b), min(b.byteLength, MAX_PUT));
  }
  failed = true;
  return status;
}

function failWith(f: Fault): i32 { return fail(f.status == Status.Ok ? Status.Internal : f.status, f.text); }

// The first buffer has room for the usual window and its hits: an instance whose memory grows after init is thrown away by
// the host.
let buffer: ArrayBuffer = new ArrayBuffer(160 << 10);
const MAX_BUFFER: i32 = 256 << 20;
const SCRATCH: i32 = 64 << 10;
let ready = false;

export function yett_abi_v1(): void {}

export function yett_buffer(n: i32): usize {
  if (n < 0 || n > MAX_BUFFER) return 0;
  if (n > buffer.byteLength) {
    buffer = changetype<ArrayBuffer>(0); // before the new one, so that both need not fit
    __collect();
    buffer = new ArrayBuffer(n);
  }
  return ptr(buffer);
}

export function yett_init(n: i32): i32 {
  failed = false;
  const status = init(n);
  __collect(); // nothing of ours is on the stack here
  return status;
}

function init(n: i32): i32 {
  const m = module;
  if (m == null || <u32>n > <u32>buffer.byteLength) return fail(Status.Internal, "init without a buffer or a registered module");
  if (ready) return fail(Status.BadConfig, "initialised twice");
  if (m.name == "" || m.version == "" || (m.stream == Stream.Window && m.lookbehind < 1)) {
    return fail(Status.BadConfig, "a module needs a name, a version and, for a window stream, lookbehind");
  }
  const doc = parse(ptr(buffer), n);
  if (doc == null) return fail(Status.BadConfig, "not a strict JSON object");
  const version = doc.get("abi"), name = doc.get("name"), given = doc.get("config");
  if (version == null || version.type != JsonType.Number || version.text != "1") return fail(Status.BadConfig, "abi: must be 1");
  if (name != null && !name.isText) return fail(Status.BadConfig, "name: must be a string");
  if (doc.names.length != 1 + i32(name != null) + i32(given != null)) return fail(Status.BadConfig, "unknown member of the init document");
  const config = given == null || given.type == JsonType.Null ? new Json(JsonType.Object) : given;
  if (!config.isObject) return fail(Status.BadConfig, "config: must be an object");
  const fault = m.init(config);
  if (fault != null) return fail(Status.BadConfig, fault.text);
  const why = addTriggers(m, config);
  if (why != "") return fail(Status.BadConfig, why);
  new ArrayBuffer(SCRATCH); // room for what a call takes, so that memory need not grow
  ready = true;
  return Status.Ok;
}

export function yett_scan(state: i32, n: i32, flags: i32): i32 {
  failed = false;
  const status = scan(state, n, flags);
  __collect();
  return status;
}

function scan(state: i32, n: i32, flags: i32): i32 {
  const hits: u64 = <u32>flags >> 8, window: u64 = <u64><u32>state + <u64><u32>n, hitsAt = (window + 3) & ~3;
  if (!ready || (hits ? hitsAt + hits * 8 : window) > <u64>buffer.byteLength) {
    return fail(Status.Internal, "scan before init or without a buffer");
  }
  const text = Uint8Array.wrap(buffer, state, n), before = Uint8Array.wrap(buffer, 0, state);
  const input = new In(text, before, flags & 255, ptr(buffer) + <usize>hitsAt, <i32>hits), out = new Out(n);
  const fault = module!.scan(input, out);
  if (fault != null) return failWith(fault);
  if (out.fault != null) return failWith(out.fault!);
  if (failed) return Status.Internal;
  send(out);
  return Status.Ok;
}

export function yett_check(n: i32, flags: i32): i32 {
  failed = false;
  const status = check(n);
  __collect();
  return status;
}

function check(n: i32): i32 {
  if (!ready || <u32>n > <u32>buffer.byteLength) return fail(Status.Internal, "check before init or without a buffer");
  const call = parse(ptr(buffer), n), d = new Decision();
  if (call == null) return fail(Status.Internal, "the call is no strict JSON object");
  const fault = module!.check(call, d);
  if (fault != null) return failWith(fault);
  const code = String.UTF8.encode(d.code), reason = String.UTF8.encode(d.reason);
  return hostDecide(d.effect, ptr(code), code.byteLength, ptr(reason), reason.byteLength, d.ttlMs) ? Status.Internal : Status.Ok;
}

export function yett_describe(): i32 {
  failed = false;
  const m = module, status = m == null ? fail(Status.Internal, "no module is registered") : putText(1, describe(m));
  __collect();
  return status ? Status.Internal : Status.Ok;
}

function quoted(s: string): string {
  let b = "\"";
  for (let i = 0; i < s.length; i++) {
    const c = s.charCodeAt(i);
    if (c == 0x22 || c == 0x5c) b += "\\";
    b += c < 0x20 ? "\\u00" + (c < 16 ? "0" : "1") + "0123456789abcdef".charAt(c & 15) : s.charAt(i);
  }
  return b + "\"";
}

/** The metadata, members in the order of the ABI's document. */
function describe(m: Module): string {
  let b = "{\"name\":" + quoted(m.name) + ",\"version\":" + quoted(m.version) + ",\"abi\":1";
  for (let i = 0; i < m.kinds.length; i++) {
    b += (i ? ",{\"name\":" : ",\"kinds\":[{\"name\":") + quoted(m.kinds[i].name) + ",\"severity\":" + (<i32>m.kinds[i].severity).toString();
    b += i + 1 == m.kinds.length ? "}]" : "}";
  }
  if (m.config != "") b += ",\"config_schema\":" + m.config;
  b += ",\"stream\":{\"mode\":" + (m.stream == Stream.Window ? "\"window\"" : m.stream == Stream.Stateful ? "\"stateful\"" : "\"none\"");
  if (m.lookbehind > 0) b += ",\"lookbehind\":" + m.lookbehind.toString();
  b += "},\"needs\":{";
  if (m.memoryMiB > 0) b += "\"memory_bytes\":" + (<i64>m.memoryMiB << 20).toString();
  if (m.deadlineMs > 0) b += (m.memoryMiB > 0 ? "," : "") + "\"deadline_ms\":" + m.deadlineMs.toString();
  b += "}";
  for (let i = 0; i < m.triggers.length; i++) {
    const t = m.triggers[i];
    b += i ? ",{" : ",\"triggers\":[{";
    if (t.bits) b += "\"class\":" + quoted(t.text) + ",\"min\":" + t.min.toString();
    else b += "\"literal\":" + quoted(t.text) + (t.fold ? ",\"fold\":true" : "");
    b += i + 1 == m.triggers.length ? "}]" : "}";
  }
  for (let i = 0; i < m.triggersFrom.length; i++) {
    const from = m.triggersFrom[i];
    b += (i ? ",{\"path\":" : ",\"triggers_from\":[{\"path\":") + quoted(from.path) + (from.fold ? ",\"fold\":true" : "");
    b += i + 1 == m.triggersFrom.length ? "}]" : "}";
  }
  return b + "}";
}
