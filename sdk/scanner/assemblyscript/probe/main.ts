// probe uses all of yett.ts, so that the vectors of sdk/testdata/vectors/scanner/sdk.yaml can compare it with the other SDKs.
import { Decision, Effect, Fault, In, Json, Kind, Module, Out, register, Severity, Trigger, TriggersFrom } from "../yett";
export { yett_abi_v1, yett_buffer, yett_init, yett_scan, yett_check, yett_describe } from "../yett";

const KINDS = ["LITERAL", "FOLDED", "OVERLAP", "DIGITS", "HEX", "BASE64", "AT", "WORD"];

class Probe extends Module {
  mode: string = "";

  constructor() {
    super("probe", "1.0.0");
    for (let i = 0; i < KINDS.length; i++) this.kinds.push(new Kind(KINDS[i], Severity.Info));
    this.triggers = [
      Trigger.literal("Alpha"), Trigger.folded("Alpha[7]"), Trigger.literal("aa"),
      Trigger.digits(3), Trigger.hex(4), Trigger.base64(8), Trigger.at(1),
    ];
    this.triggersFrom = [TriggersFrom.folded("/words"), TriggersFrom.literal("/lists/exact")];
    this.config = '{"type":"object","properties":{"mode":{"type":"string"},"words":{"type":"array","items":{"type":"string"}},"lists":{"type":"object","properties":{"exact":{"type":"array","items":{"type":"string"}}},"additionalProperties":false}},"additionalProperties":false}';
    this.memoryMiB = 1;
    this.deadlineMs = 5;
  }

  init(config: Json): Fault | null {
    for (let i = 0; i < config.names.length; i++) {
      if (config.names[i] == "words" || config.names[i] == "lists") continue;
      if (config.names[i] != "mode" || !config.items[i].isText) return new Fault("mode: must be a string");
      this.mode = config.items[i].text;
    }
    return null;
  }

  scan(input: In, out: Out): Fault | null {
    const n = input.text.length, mode = this.mode;
    for (let i = input.hits() - 1; i >= 0; i--) {
      const hit = input.hit(i);
      for (let times = mode == "twice" ? 2 : 1; times > 0; times--) out.flag(KINDS[min(hit.trigger, 7)], hit.start, hit.end, 0.5);
    }
    if (mode == "status") return new Fault("as asked", 70);
    if (mode == "kind") out.flag("NONE", 0, 1, 1);
    if (mode == "span") out.flag("AT", 0, n + 1, 1);
    if (mode == "empty") out.flag("AT", 1, 1, 1);
    if (mode == "reversed") out.flag("AT", 1, 0, 1);
    if (mode == "confidence") out.flag("AT", 0, 1, 1.5);
    if (mode == "replacement") out.replace("AT", 0, 1, 1, "x".repeat(4097));
    if (mode == "annotate") out.annotate('{"hits":true}');
    if (mode == "annotations") out.annotate("\"" + "x".repeat(65536) + "\"");
    if (mode == "state") out.setState(new Uint8Array(4097));
    return null;
  }

  check(call: Json, d: Decision): Fault | null {
    const args = call.get("args"), say = args ? args.get("say") : null;
    d.ttlMs = 250;
    if (say == null) return null;
    if (!say.isText) return new Fault("say: must be a string");
    if (say.text == "permit") {
      d.effect = Effect.Permit;
      d.code = "YES";
      d.reason = "naïve ✓";
    } else if (say.text == "deny") {
      d.effect = Effect.Deny;
      d.code = "NO";
    } else if (say.text == "defer") {
      d.effect = Effect.Defer;
      d.code = "MAYBE";
      d.reason = "ask";
    } else if (say.text == "fail") {
      return new Fault("as asked");
    }
    return null;
  }
}

register(new Probe());
