//! probe uses all of yett.rs, so that the vectors of sdk/testdata/vectors/scanner/sdk.yaml can compare it with the other SDKs.
#[path = "../yett.rs"]
mod yett;

use yett::{Action, Authorizer, Decision, Effect, Error, Finding, In, Json, Kind, Module, Out, Scanner, Severity, Spec, Trigger, TriggersFrom};

struct Probe(String);

const KINDS: [Kind; 8] = [
    Kind("LITERAL", Severity::Info),
    Kind("FOLDED", Severity::Info),
    Kind("OVERLAP", Severity::Info),
    Kind("DIGITS", Severity::Info),
    Kind("HEX", Severity::Info),
    Kind("BASE64", Severity::Info),
    Kind("AT", Severity::Info),
    Kind("WORD", Severity::Info),
];

impl Module for Probe {
    const SPEC: Spec = Spec {
        name: "probe",
        version: "1.0.0",
        kinds: &KINDS,
        triggers: &[
            Trigger::Literal("Alpha"),
            Trigger::Folded("Alpha[7]"),
            Trigger::Literal("aa"),
            Trigger::Digits(3),
            Trigger::Hex(4),
            Trigger::Base64(8),
            Trigger::At(1),
        ],
        triggers_from: &[TriggersFrom::Folded("/words"), TriggersFrom::Literal("/lists/exact")],
        config: r#"{"type":"object","properties":{"mode":{"type":"string"},"words":{"type":"array","items":{"type":"string"}},"lists":{"type":"object","properties":{"exact":{"type":"array","items":{"type":"string"}}},"additionalProperties":false}},"additionalProperties":false}"#,
        memory_mib: 1,
        deadline_ms: 5,
        ..Spec::EMPTY
    };

    fn init(config: &Json) -> Result<Self, Error> {
        let mut mode = String::new();
        for (name, v) in config.members()? {
            match name.as_str() {
                "mode" => mode = v.text()?.to_string(),
                "words" | "lists" => {}
                _ => return Err("unknown key".into()),
            }
        }
        Ok(Probe(mode))
    }
}

impl Scanner for Probe {
    fn scan(&mut self, input: &mut In, out: &mut Out) -> Result<(), Error> {
        let n = input.text.len();
        for hit in input.hits()?.iter().rev() {
            for _ in 0..if self.0 == "twice" { 2 } else { 1 } {
                out.flag(KINDS[hit.trigger.min(7)].0, hit.start..hit.end, 0.5);
            }
        }
        match self.0.as_str() {
            "status" => return Err(Error::new(70, "as asked")),
            "kind" => out.flag("NONE", 0..1, 1.0),
            "span" => out.flag("AT", 0..n + 1, 1.0),
            "empty" => out.flag("AT", 1..1, 1.0),
            "reversed" => out.emit(Finding {
                kind: "AT",
                start: 1,
                end: 0,
                confidence: 1.0,
                severity: None,
                action: Action::Flag,
                replacement: String::new(),
            }),
            "confidence" => out.flag("AT", 0..1, 1.5),
            "replacement" => out.replace("AT", 0..1, 1.0, "x".repeat(4097)),
            "annotate" => out.annotate("{\"hits\":true}"),
            "annotations" => out.annotate(format!("\"{}\"", "x".repeat(65536))),
            "state" => out.set_state(&[0; 4097]),
            _ => {}
        }
        Ok(())
    }
}

impl Authorizer for Probe {
    fn check(&mut self, call: &Json) -> Result<Decision, Error> {
        let mut d = match call.get("args").and_then(|args| args.get("say")).map(Json::text).transpose()? {
            Some("permit") => Decision::new(Effect::Permit, "YES", "naïve ✓"),
            Some("deny") => Decision::new(Effect::Deny, "NO", ""),
            Some("defer") => Decision::new(Effect::Defer, "MAYBE", "ask"),
            Some("fail") => return Err("as asked".into()),
            _ => Decision::abstain(),
        };
        d.ttl_ms = 250;
        Ok(d)
    }
}

yett::export!(Probe, scan, check);
