// __NAME__ is a scanner for Yett: it redacts a code name in what tools put out.
import { Fault, In, Kind, Module, Out, register, Severity, Stream, Trigger } from "./yett";
export { yett_abi_v1, yett_buffer, yett_init, yett_scan, yett_describe } from "./yett";

const WORD = "bluebird";

class Codename extends Module {
  constructor() {
    super("__NAME__", "0.1.0");
    this.kinds = [new Kind("CODENAME", Severity.High)];
    this.triggers = [Trigger.folded(WORD)]; // texts without it never get here
    this.stream = Stream.Window;
    this.lookbehind = WORD.length; // no finding is longer
  }

  scan(input: In, out: Out): Fault | null {
    for (let i = 0, n = input.hits(); i < n; i++) {
      const hit = input.hit(i);
      out.redact("CODENAME", hit.start, hit.end, 1);
    }
    return null;
  }
}

register(new Codename());
