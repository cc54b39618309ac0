//! __NAME__ is a scanner for Yett: it redacts a code name in what tools put out.
mod yett;
use yett::{Error, In, Json, Kind, Module, Out, Scanner, Severity, Spec, Stream, Trigger};

const WORD: &str = "bluebird";

struct Codename;

impl Module for Codename {
    const SPEC: Spec = Spec {
        name: "__NAME__",
        version: "0.1.0",
        kinds: &[Kind("CODENAME", Severity::High)],
        triggers: &[Trigger::Folded(WORD)], // texts without it never get here
        stream: Stream::Window { lookbehind: WORD.len() as u32 }, // no finding is longer
        ..Spec::EMPTY
    };
    fn init(config: &Json) -> Result<Self, Error> {
        config.no_members().map(|()| Codename)
    }
}

impl Scanner for Codename {
    fn scan(&mut self, input: &mut In, out: &mut Out) -> Result<(), Error> {
        input.hits()?.iter().for_each(|hit| out.redact("CODENAME", hit.start..hit.end, 1.0));
        Ok(())
    }
}

yett::export!(Codename, scan);
