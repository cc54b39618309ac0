// ticket-ids: an example of a scanner in AssemblyScript. It finds ticket codes such as ACME-1234, badge numbers and a code
// name in what a tool gave back, and answers the vectors of sdk/testdata/vectors/scanner like its twins in Go, Rust and C.
// In a project of your own the SDK's file lies beside this one: "./yett".
import { Action, Fault, Finding, Hit, In, Json, Kind, Module, Out, register, Severity, Stream, Trigger } from "../../sdk/scanner/assemblyscript/yett";
export { yett_abi_v1, yett_buffer, yett_init, yett_scan, yett_describe } from "../../sdk/scanner/assemblyscript/yett";

// Indexes of the triggers.
const TICKET_MARK = 0, DIGIT_RUN = 1, CODENAME = 2;

// Digits of a ticket's number; what has more is something else.
const MAX_DIGITS = 12;

class Tickets extends Module {
  minDigits: i32 = 4;
  severity: i32 = Severity.Medium; // of a ticket
  badges: bool = true;
  confidence: f32 = 0.5; // of a badge number
  ignore: string[] = [];

  constructor() {
    super("ticket-ids", "1.0.0");
    this.kinds = [
      new Kind("TICKET_ID", Severity.Medium),
      new Kind("BADGE_NUMBER", Severity.Low),
      new Kind("CODENAME", Severity.High),
    ];
    this.triggers = [Trigger.literal("ACME-"), Trigger.digits(6), Trigger.folded("bluebird")];
    this.stream = Stream.Window;
    this.lookbehind = 64;
    this.config = '{"type":"object","additionalProperties":false,"properties":{' +
      '"min_digits":{"type":"integer","minimum":1,"maximum":9},' +
      '"severity":{"enum":["info","low","medium","high","critical"]},' +
      '"badges":{"type":"boolean"},' +
      '"confidence":{"type":"number","minimum":0,"maximum":1},' +
      '"ignore":{"type":"array","items":{"type":"string","pattern":"^ACME-"}}}}';
  }

  init(config: Json): Fault | null {
    for (let i = 0; i < config.names.length; i++) {
      const name = config.names[i], v = config.items[i], n = v.number;
      if (name == "min_digits") {
        if (!(n >= 1 && n <= 9) || n != Math.floor(n)) return new Fault("min_digits: must be an integer of 1–9");
        this.minDigits = <i32>n;
      } else if (name == "severity") {
        this.severity = v.isText ? ["info", "low", "medium", "high", "critical"].indexOf(v.text) : -1;
        if (this.severity < 0) return new Fault("severity: must be info, low, medium, high or critical");
      } else if (name == "badges") {
        if (!v.isBool) return new Fault("badges: must be true or false");
        this.badges = v.bool;
      } else if (name == "confidence") {
        if (!(n >= 0 && n <= 1)) return new Fault("confidence: must be a number of 0–1");
        this.confidence = <f32>n;
      } else if (name == "ignore") {
        let good = v.isArray;
        this.ignore = [];
        for (let k = 0; k < v.items.length && good; k++) {
          good = v.items[k].isText && v.items[k].text.startsWith("ACME-");
          this.ignore.push(v.items[k].text);
        }
        if (!good) return new Fault("ignore: must be an array of tickets that begin with ACME-");
      } else {
        return new Fault(name + ": unknown key");
      }
    }
    return null;
  }

  scan(input: In, out: Out): Fault | null {
    for (let i = 0, n = input.hits(); i < n; i++) {
      const hit = input.hit(i);
      if (hit.trigger == TICKET_MARK) this.ticket(input.text, hit, out);
      else if (hit.trigger == CODENAME) out.replace("CODENAME", hit.start, hit.end, 0.9, "[codename]");
      else if (this.badges) out.flag("BADGE_NUMBER", hit.start, hit.end, this.confidence);
    }
    return null;
  }

  ticket(text: Uint8Array, hit: Hit, out: Out): void {
    let end = hit.end;
    while (end < text.length && text[end] >= 0x30 && text[end] <= 0x39) end++;
    const digits = end - hit.end;
    if (digits < this.minDigits || digits > MAX_DIGITS) return;
    if (this.ignore.length && this.ignore.includes(String.UTF8.decodeUnsafe(text.dataStart + hit.start, end - hit.start))) return;
    const f = new Finding("TICKET_ID", hit.start, end);
    f.severity = this.severity;
    f.action = Action.Redact;
    out.emit(f);
  }
}

register(new Tickets());
