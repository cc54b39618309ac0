//! ticket-ids: an example of a scanner in Rust. It finds ticket codes such as ACME-1234, badge numbers and a code name in
//! what a tool gave back, and answers the vectors of sdk/testdata/vectors/scanner like its twins in Go, C and AssemblyScript.

#[path = "../../sdk/scanner/rust/yett.rs"]
mod yett; // in a project of your own the file lies beside this one: mod yett;

use yett::{Action, Error, Finding, In, Json, Kind, Module, Out, Scanner, Severity, Spec, Stream, Trigger};

/// Indexes of the triggers.
const TICKET_MARK: usize = 0;
const DIGIT_RUN: usize = 1;
const CODENAME: usize = 2;

/// Digits of a ticket's number; what has more is something else.
const MAX_DIGITS: usize = 12;

/// The operator's choice.
struct Tickets {
    min_digits: usize,
    severity: Severity, // of a ticket
    badges: bool,
    confidence: f32, // of a badge number
    ignore: Vec<String>,
}

impl Module for Tickets {
    const SPEC: Spec = Spec {
        name: "ticket-ids",
        version: "1.0.0",
        kinds: &[
            Kind("TICKET_ID", Severity::Medium),
            Kind("BADGE_NUMBER", Severity::Low),
            Kind("CODENAME", Severity::High),
        ],
        triggers: &[Trigger::Literal("ACME-"), Trigger::Digits(6), Trigger::Folded("bluebird")],
        stream: Stream::Window { lookbehind: 64 },
        config: concat!(
            r#"{"type":"object","additionalProperties":false,"properties":{"#,
            r#""min_digits":{"type":"integer","minimum":1,"maximum":9},"#,
            r#""severity":{"enum":["info","low","medium","high","critical"]},"#,
            r#""badges":{"type":"boolean"},"#,
            r#""confidence":{"type":"number","minimum":0,"maximum":1},"#,
            r#""ignore":{"type":"array","items":{"type":"string","pattern":"^ACME-"}}}}"#
        ),
        ..Spec::EMPTY
    };

    fn init(config: &Json) -> Result<Self, Error> {
        let mut t = Tickets { min_digits: 4, severity: Severity::Medium, badges: true, confidence: 0.5, ignore: Vec::new() };
        for (name, v) in config.members()? {
            match name.as_str() {
                "min_digits" => match v.number() {
                    Ok(n) if n >= 1.0 && n <= 9.0 && n.fract() == 0.0 => t.min_digits = n as usize,
                    _ => return Err("min_digits: must be an integer of 1–9".into()),
                },
                "severity" => match v.text() {
                    Ok("info") => t.severity = Severity::Info,
                    Ok("low") => t.severity = Severity::Low,
                    Ok("medium") => t.severity = Severity::Medium,
                    Ok("high") => t.severity = Severity::High,
                    Ok("critical") => t.severity = Severity::Critical,
                    _ => return Err("severity: must be info, low, medium, high or critical".into()),
                },
                "badges" => t.badges = v.bool().map_err(|e| ["badges: ", &e.text].concat())?,
                "confidence" => match v.number() {
                    Ok(c) if (0.0..=1.0).contains(&c) => t.confidence = c as f32,
                    _ => return Err("confidence: must be a number of 0–1".into()),
                },
                "ignore" => match v.texts() {
                    Ok(all) if all.iter().all(|s| s.starts_with("ACME-")) => t.ignore = all,
                    _ => return Err("ignore: must be an array of tickets that begin with ACME-".into()),
                },
                _ => return Err([name, ": unknown key"].concat().into()),
            }
        }
        Ok(t)
    }
}

impl Scanner for Tickets {
    fn scan(&mut self, input: &mut In, out: &mut Out) -> Result<(), Error> {
        let text = input.text;
        for hit in input.hits()? {
            match hit.trigger {
                TICKET_MARK => {
                    let digits = text[hit.end..].iter().take_while(|c| c.is_ascii_digit()).count();
                    let end = hit.end + digits;
                    let ignored = self.ignore.iter().any(|s| s.as_bytes() == &text[hit.start..end]);
                    if digits < self.min_digits || digits > MAX_DIGITS || ignored {
                        continue;
                    }
                    out.emit(Finding {
                        kind: "TICKET_ID",
                        start: hit.start,
                        end,
                        confidence: 1.0,
                        severity: Some(self.severity),
                        action: Action::Redact,
                        replacement: String::new(),
                    });
                }
                DIGIT_RUN if self.badges => out.flag("BADGE_NUMBER", hit.start..hit.end, self.confidence),
                CODENAME => out.replace("CODENAME", hit.start..hit.end, 0.9, "[codename]"),
                _ => {}
            }
        }
        Ok(())
    }
}

yett::export!(Tickets, scan);
