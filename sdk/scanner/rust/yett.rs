//! yett.rs: write a module for ABI v1 (a scanner or an authorizer) in Rust with rustc and its standard library alone.
//!
//! ```ignore
//! mod yett;
//! use yett::{Error, In, Json, Kind, Module, Out, Scanner, Severity, Spec, Trigger};
//!
//! struct Codename;
//!
//! impl Module for Codename {
//!     const SPEC: Spec = Spec {
//!         name: "codename",
//!         version: "1.0.0",
//!         kinds: &[Kind("CODENAME", Severity::High)],
//!         triggers: &[Trigger::Folded("bluebird")],
//!         ..Spec::EMPTY
//!     };
//!     fn init(config: &Json) -> Result<Self, Error> {
//!         config.no_members().map(|()| Codename)
//!     }
//! }
//!
//! impl Scanner for Codename {
//!     fn scan(&mut self, input: &mut In, out: &mut Out) -> Result<(), Error> {
//!         for hit in input.hits()? {
//!             out.redact("CODENAME", hit.start..hit.end, 1.0);
//!         }
//!         Ok(())
//!     }
//! }
//!
//! yett::export!(Codename, scan);
//! ```
//!
//! Build: `rustc --edition 2021 --target wasm32-unknown-unknown --crate-type cdylib -C opt-level=3 -C panic=abort -C lto
//! -C strip=symbols -C link-arg=-zstack-size=65536 -o codename.wasm main.rs`.
//!
//! It must be `mod yett;` of the crate's root. Text comes in through [`In`], findings leave through [`Out`]; nothing else is
//! to be had. Any mistake (an undeclared kind, a span outside the window, a panic) fails the call, which is never taken for
//! "clean".
#![allow(dead_code)]

use std::cell::UnsafeCell;
use std::cmp::max;
use std::ops::Range;

/// Severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    Info,
    Low,
    Medium,
    High,
    Critical,
}

/// What a scanner suggests to do about a finding; the operator's configuration decides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Action {
    Flag,
    Redact,
    Replace,
    Deny,
}

/// What an authorizer says about a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    Abstain,
    Permit,
    Deny,
    Defer,
}

/// Flags of a call, in [`In::flags`].
pub mod flags {
    pub const FIRST: u32 = 1;
    pub const FINAL: u32 = 2;
    pub const STREAM: u32 = 4;
    pub const UTF8: u32 = 8;
    pub const TRUNCATED: u32 = 16;
    pub const DRY_RUN: u32 = 32;
    pub const HITS_COMPLETE: u32 = 64;
}

/// Statuses of an [`Error`]; from `AUTHOR` on they are yours.
pub mod status {
    pub const BAD_CONFIG: i32 = 1;
    pub const UNSUPPORTED: i32 = 2;
    pub const INTERNAL: i32 = 3;
    pub const AUTHOR: i32 = 64;
}

pub const MAX_FINDINGS: usize = 256;
pub const MAX_STATE: usize = 4 << 10;
pub const MAX_PUT: usize = 64 << 10;
pub const MAX_REPLACEMENT: usize = 4 << 10;

/// One kind of finding, UPPER_SNAKE, and its default severity.
#[derive(Clone, Copy)]
pub struct Kind(pub &'static str, pub Severity);

/// Something without which the scanner can find nothing. A hit of a literal is each of its occurrences, overlapping ones
/// included; a hit of a class is each maximal run of at least that many bytes.
#[derive(Clone, Copy)]
pub enum Trigger {
    /// These very bytes.
    Literal(&'static str),
    /// These letters in any case (ASCII).
    Folded(&'static str),
    /// 0-9
    Digits(u32),
    /// 0-9 a-f A-F
    Hex(u32),
    /// A-Z a-z 0-9 + / = - _
    Base64(u32),
    /// The byte @
    At(u32),
}

/// A list of strings in the configuration, each of which becomes a trigger: the names that lead to it, each after a slash
/// (`/words`). `config` must declare the list. Hits number its entries behind [`Spec::triggers`], list after list.
#[derive(Clone, Copy)]
pub enum TriggersFrom {
    /// These very bytes.
    Literal(&'static str),
    /// These letters in any case (ASCII).
    Folded(&'static str),
}

/// How a scanner works on a text that comes in pieces.
#[derive(Clone, Copy)]
pub enum Stream {
    None,
    /// No finding, with the context that it needs, is longer than `lookbehind` bytes.
    Window { lookbehind: u32 },
    Stateful,
}

/// A module.
#[derive(Clone, Copy)]
pub struct Spec {
    pub name: &'static str,
    pub version: &'static str,
    /// Every kind that scan may emit.
    pub kinds: &'static [Kind],
    /// None: scan sees every text, and there are no hits.
    pub triggers: &'static [Trigger],
    /// Lists of the configuration whose entries are triggers too. A word that scan knows by itself must stand in triggers.
    pub triggers_from: &'static [TriggersFrom],
    pub stream: Stream,
    /// JSON Schema of the configuration, as JSON; empty: any object that init accepts.
    pub config: &'static str,
    /// Memory the module cannot work without, MiB; 0: the host's default is enough.
    pub memory_mib: u32,
    /// Time the module cannot work without, ms; 0: the host's default is enough.
    pub deadline_ms: u32,
}

impl Spec {
    pub const EMPTY: Spec = Spec {
        name: "",
        version: "",
        kinds: &[],
        triggers: &[],
        triggers_from: &[],
        stream: Stream::None,
        config: "",
        memory_mib: 0,
        deadline_ms: 0,
    };
}

/// What every module has: its description and a start with the operator's configuration, an object.
pub trait Module: Sized {
    const SPEC: Spec;
    fn init(config: &Json) -> Result<Self, Error>;
}

/// A module that looks at texts. The host may set everything back to what init left after each call: keep nothing.
pub trait Scanner: Module {
    fn scan(&mut self, input: &mut In, out: &mut Out) -> Result<(), Error>;
}

/// A module that decides calls, given as JSON: agent_id, session_id, tool_id, operation, call_id, args, context.
pub trait Authorizer: Module {
    fn check(&mut self, call: &Json) -> Result<Decision, Error>;
}

/// Fails a call.
#[derive(Clone, Debug)]
pub struct Error {
    pub status: i32,
    pub text: String,
}

impl Error {
    pub fn new(status: i32, text: impl Into<String>) -> Error {
        Error { status, text: text.into() }
    }
}

impl From<String> for Error {
    fn from(text: String) -> Error {
        Error::new(status::INTERNAL, text)
    }
}

impl From<&str> for Error {
    fn from(text: &str) -> Error {
        Error::new(status::INTERNAL, text)
    }
}

/// What a check answers. Every effect but Abstain needs a code in UPPER_SNAKE.
#[derive(Clone, Debug)]
pub struct Decision {
    pub effect: Effect,
    pub code: String,
    pub reason: String,
    /// How long the answer may be kept, ms; 0: not at all.
    pub ttl_ms: u32,
}

impl Decision {
    pub fn abstain() -> Decision {
        Decision::new(Effect::Abstain, "", "")
    }
    pub fn new(effect: Effect, code: &str, reason: impl Into<String>) -> Decision {
        Decision { effect, code: code.to_string(), reason: reason.into(), ttl_ms: 0 }
    }
}

/// Writes a line to the operator's log; level 0 debug, 1 info, 2 warning, 3 error.
pub fn log(level: i32, line: &str) {
    unsafe { host::log(level, line.as_ptr(), line.len()) }
}

// ------------------------------------------------------------------------------------------------ texts and findings

/// One occurrence of a trigger: its index in [`Spec::triggers`], behind which the entries of [`Spec::triggers_from`] follow,
/// and byte offsets into the text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Hit {
    pub start: usize,
    pub trigger: usize,
    pub end: usize,
}

/// One text to scan.
pub struct In<'a> {
    pub text: &'a [u8],
    /// What the last call of a stateful stream kept with [`Out::set_state`].
    pub state: &'a [u8],
    pub flags: u32,
    raw: &'a [u8],
    hits: &'a mut Vec<Hit>,
    finder: &'a Finder,
    searched: bool,
}

impl<'a> In<'a> {
    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags == flags
    }

    /// Every hit of every trigger in order of start, then trigger. They are the host's where it found them all and
    /// searched for here otherwise. It is an error when the host's do not fit the text.
    pub fn hits(&mut self) -> Result<&[Hit], Error> {
        if !self.searched {
            self.hits.clear();
            if self.has(flags::HITS_COMPLETE) {
                self.decode()?;
            } else {
                self.finder.search(self.text, self.hits);
            }
            self.searched = true;
        }
        Ok(self.hits)
    }

    fn decode(&mut self) -> Result<(), Error> {
        for pair in self.raw.chunks_exact(8) {
            let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize;
            let (trigger, start) = (word(pair), word(&pair[4..]));
            let fits = trigger < self.finder.triggers.len() && start < self.text.len();
            match if fits { self.finder.matches(trigger, self.text, start) } else { None } {
                Some(end) => self.hits.push(Hit { start, trigger, end }),
                None => return Err("the host's hits do not fit the text".into()),
            }
        }
        if !self.hits.windows(2).all(|w| w[0] < w[1]) {
            self.hits.sort();
            self.hits.dedup();
        }
        Ok(())
    }
}

/// One span of the text.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    pub kind: &'static str,
    pub start: usize,
    pub end: usize,
    /// 0–1
    pub confidence: f32,
    /// None: the kind's own.
    pub severity: Option<Severity>,
    pub action: Action,
    /// With [`Action::Replace`].
    pub replacement: String,
}

/// What a scan found.
pub struct Out<'a> {
    spec: &'static Spec,
    window: usize,
    found: &'a mut Vec<Finding>,
    err: Option<Error>,
    state: Option<Vec<u8>>,
    notes: Option<String>,
}

impl<'a> Out<'a> {
    /// Leaves the span in place.
    pub fn flag(&mut self, kind: &'static str, span: Range<usize>, confidence: f32) {
        self.add(kind, span, confidence, Action::Flag, String::new());
    }
    /// Takes the span out.
    pub fn redact(&mut self, kind: &'static str, span: Range<usize>, confidence: f32) {
        self.add(kind, span, confidence, Action::Redact, String::new());
    }
    /// Puts something else in the span's place.
    pub fn replace(&mut self, kind: &'static str, span: Range<usize>, confidence: f32, with: impl Into<String>) {
        self.add(kind, span, confidence, Action::Replace, with.into());
    }
    fn add(&mut self, kind: &'static str, span: Range<usize>, confidence: f32, action: Action, replacement: String) {
        self.emit(Finding { kind, start: span.start, end: span.end, confidence, severity: None, action, replacement });
    }

    /// Reports one finding. What the ABI does not allow fails the whole scan.
    #[inline(never)]
    pub fn emit(&mut self, mut f: Finding) {
        let declared = self.spec.kinds.iter().find(|k| k.0 == f.kind);
        let longest = match self.spec.stream {
            Stream::Window { lookbehind } => lookbehind as usize,
            _ => usize::MAX,
        };
        let why = match declared {
            None => "is of an undeclared kind",
            Some(_) if f.end == f.start => "is empty: a finding is of one byte or more",
            Some(_) if f.end < f.start || f.end > self.window => "lies outside the window",
            Some(_) if f.end - f.start > longest => "is longer than lookbehind",
            Some(_) if !(f.confidence >= 0.0 && f.confidence <= 1.0) => "has a confidence that is not 0–1",
            Some(_) if f.replacement.len() > MAX_REPLACEMENT => "has a replacement longer than 4096 bytes",
            Some(kind) => {
                f.severity = f.severity.or(Some(kind.1));
                self.found.push(f);
                return;
            }
        };
        self.fail(["finding ", f.kind, " ", why].concat());
    }

    /// Keeps at most [`MAX_STATE`] bytes for the next call of a stateful stream.
    pub fn set_state(&mut self, state: &[u8]) {
        if state.len() > MAX_STATE {
            self.fail("state longer than 4096 bytes".to_string());
        }
        self.state = Some(state.to_vec());
    }

    /// Attaches a JSON document of at most [`MAX_PUT`] bytes to the record.
    pub fn annotate(&mut self, json: impl Into<String>) {
        let json = json.into();
        if json.len() > MAX_PUT {
            self.fail("annotation longer than 65536 bytes".to_string());
        }
        self.notes = Some(json);
    }

    fn fail(&mut self, text: String) {
        self.err.get_or_insert(Error::new(status::INTERNAL, text));
    }

    /// Sorts, drops repetitions and folds what is over the ABI's 256 findings into the last: it covers them all.
    #[inline(never)]
    fn finish(&mut self) -> bool {
        let after = |a: &Finding, b: &Finding| (a.start, a.end, a.kind) > (b.start, b.end, b.kind);
        if self.found.windows(2).any(|w| after(&w[0], &w[1])) {
            self.found.sort_by(|a, b| (a.start, a.end, a.kind).cmp(&(b.start, b.end, b.kind)));
        }
        self.found.dedup();
        if self.found.len() <= MAX_FINDINGS {
            return false;
        }
        let rest = self.found.split_off(MAX_FINDINGS);
        let last = &mut self.found[MAX_FINDINGS - 1];
        let harder = |a: Action| if a == Action::Replace { Action::Redact } else { a };
        last.replacement.clear();
        for f in rest {
            last.end = max(last.end, f.end);
            last.confidence = last.confidence.max(f.confidence);
            last.severity = max(last.severity, f.severity);
            last.action = max(harder(last.action), harder(f.action));
        }
        true
    }

    fn send(&mut self) {
        let folded = self.finish();
        for f in self.found.iter() {
            let severity = f.severity.unwrap_or(Severity::Info) as i32;
            let (kind, with) = (f.kind.as_bytes(), f.replacement.as_bytes());
            let stop = unsafe {
                host::emit(kind.as_ptr(), kind.len(), f.start, f.end, f.confidence, severity, f.action as i32, with.as_ptr(), with.len())
            };
            if stop != 0 {
                break; // the host has what it wants and says so
            }
        }
        if folded {
            log(1, "more findings than allowed: the last one covers the rest");
        }
        if let Some(state) = &self.state {
            put(2, state);
        }
        if let Some(notes) = &self.notes {
            put(3, notes.as_bytes());
        }
    }
}

// ------------------------------------------------------------------------------------------------------- the triggers

const DIGITS: u8 = 1;
const HEX: u8 = 2;
const BASE64: u8 = 4;
const AT: u8 = 8;

fn class_bits(c: u8) -> u8 {
    match c {
        b'0'..=b'9' => DIGITS | HEX | BASE64,
        b'a'..=b'f' | b'A'..=b'F' => HEX | BASE64,
        b'g'..=b'z' | b'G'..=b'Z' | b'+' | b'/' | b'=' | b'-' | b'_' => BASE64,
        b'@' => AT,
        _ => 0,
    }
}

impl Trigger {
    /// The class as a bit and the shortest run, if it is one.
    fn run(self) -> Option<(u8, usize)> {
        match self {
            Trigger::Digits(n) => Some((DIGITS, n as usize)),
            Trigger::Hex(n) => Some((HEX, n as usize)),
            Trigger::Base64(n) => Some((BASE64, n as usize)),
            Trigger::At(n) => Some((AT, n as usize)),
            _ => None,
        }
    }
}

/// All triggers: those of the spec, and behind them the entries of the lists that it names. They live as long as the module.
#[inline(never)]
fn all_triggers(spec: &'static Spec, config: &Json) -> Result<Vec<Trigger>, Error> {
    let mut all = spec.triggers.to_vec();
    for from in spec.triggers_from {
        let (path, fold) = match *from {
            TriggersFrom::Literal(p) => (p, false),
            TriggersFrom::Folded(p) => (p, true),
        };
        let field = path.trim_start_matches('/').replace('/', ".");
        let wrong = |i: usize, why: &str| {
            let mut text = field.clone();
            number(&mut text, "[", i as u64);
            Error::new(status::BAD_CONFIG, [&text, "]: ", why].concat())
        };
        let found = path.split('/').skip(1).fold(Some(config), |at, name| at.and_then(|v| v.get(name)));
        for (i, entry) in found.map_or(Ok(&[][..]), Json::array)?.iter().enumerate() {
            let text = entry.text().map_err(|e| wrong(i, &e.text))?;
            if text.is_empty() || text.len() > MAX_ENTRY {
                return Err(wrong(i, "must have 1 to 256 bytes"));
            }
            if all.len() - spec.triggers.len() == MAX_CONFIG_TRIGGERS {
                return Err(wrong(i, "more than 10000 entries in all lists of triggers together"));
            }
            let text: &'static str = Box::leak(text.to_string().into_boxed_str());
            all.push(if fold { Trigger::Folded(text) } else { Trigger::Literal(text) });
        }
    }
    Ok(all)
}

const MAX_ENTRY: usize = 256;
const MAX_CONFIG_TRIGGERS: usize = 10_000;

struct Finder {
    triggers: Vec<Trigger>,
    literals: Vec<Vec<usize>>, // by first byte, case folded: triggers in order
    runs: Vec<(usize, u8)>,
    starts: [bool; 256], // whether a literal may start with the byte, or a run hold it
}

impl Finder {
    fn new(triggers: Vec<Trigger>) -> Result<Finder, Error> {
        let mut f = Finder { triggers: Vec::new(), literals: vec![Vec::new(); 256], runs: Vec::new(), starts: [false; 256] };
        let mut bits = 0;
        for (i, t) in triggers.iter().enumerate() {
            match *t {
                Trigger::Literal("") | Trigger::Folded("") => return Err("an empty trigger".into()),
                Trigger::Literal(s) | Trigger::Folded(s) => f.literals[s.as_bytes()[0].to_ascii_lowercase() as usize].push(i),
                _ => {
                    let (class, min) = t.run().unwrap_or((0, 0));
                    if min == 0 {
                        return Err("a trigger with a shortest run of 0".into());
                    }
                    bits |= class;
                    f.runs.push((i, class));
                }
            }
        }
        for c in 0..=255u8 {
            f.starts[c as usize] = !f.literals[c.to_ascii_lowercase() as usize].is_empty() || class_bits(c) & bits != 0;
        }
        f.triggers = triggers;
        Ok(f)
    }

    /// Where the hit of a trigger that starts at the given offset ends.
    fn matches(&self, trigger: usize, text: &[u8], at: usize) -> Option<usize> {
        let rest = &text[at..];
        match self.triggers[trigger] {
            Trigger::Literal(s) => rest.starts_with(s.as_bytes()).then(|| at + s.len()),
            Trigger::Folded(s) => {
                let same = rest.len() >= s.len() && rest[..s.len()].eq_ignore_ascii_case(s.as_bytes());
                same.then(|| at + s.len())
            }
            t => {
                let (class, min) = t.run()?;
                if at > 0 && class_bits(text[at - 1]) & class != 0 {
                    return None;
                }
                let n = rest.iter().take_while(|&&c| class_bits(c) & class != 0).count();
                (n >= min).then(|| at + n)
            }
        }
    }

    #[inline(never)]
    fn search(&self, text: &[u8], hits: &mut Vec<Hit>) {
        for (start, &c) in text.iter().enumerate() {
            if !self.starts[c as usize] {
                continue;
            }
            let mut literals = &self.literals[c.to_ascii_lowercase() as usize][..];
            let mut runs = &self.runs[..];
            loop {
                // Two lists, each in order of trigger.
                let trigger = match (literals, runs) {
                    ([l, rest @ ..], []) => (literals = rest, *l).1,
                    ([l, rest @ ..], [r, ..]) if *l < r.0 => (literals = rest, *l).1,
                    (_, [r, rest @ ..]) => {
                        runs = rest;
                        if class_bits(c) & r.1 == 0 {
                            continue;
                        }
                        r.0
                    }
                    ([], []) => break,
                };
                if let Some(end) = self.matches(trigger, text, start) {
                    hits.push(Hit { start, trigger, end });
                }
            }
        }
    }
}

// -------------------------------------------------------------------------------------------------------------- JSON

/// A JSON document, read strictly: UTF-8, unique names, at most 128 levels, nothing behind it.
#[derive(Clone, PartialEq, Debug)]
pub enum Json {
    Null,
    Bool(bool),
    /// As it was written; see [`Json::number`].
    Number(String),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

const NOT_JSON: &str = "not a strict JSON document";
const MAX_DEPTH: usize = 128; // the host lets 64 pass in what a call carries

impl Json {
    /// Reads one object.
    pub fn parse(doc: &[u8]) -> Result<Json, Error> {
        std::str::from_utf8(doc).map_err(|_| Error::from("not UTF-8"))?;
        let mut r = Reader { text: doc, at: 0 };
        r.space();
        let value = if r.peek() == Some(b'{') { r.value(0)? } else { return Err("not a JSON object".into()) };
        r.space();
        if r.at != doc.len() {
            return Err("data after the JSON object".into());
        }
        Ok(value)
    }

    pub fn members(&self) -> Result<&[(String, Json)], Error> {
        match self {
            Json::Object(m) => Ok(m),
            _ => Err("must be an object".into()),
        }
    }
    /// Refuses every configuration but `{}`.
    pub fn no_members(&self) -> Result<(), Error> {
        match self.members()?.first() {
            Some((name, _)) => Err([name, ": this module has no configuration"].concat().into()),
            None => Ok(()),
        }
    }
    /// The member of that name.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.members().ok()?.iter().find(|m| m.0 == name).map(|m| &m.1)
    }
    pub fn text(&self) -> Result<&str, Error> {
        match self {
            Json::Text(s) => Ok(s),
            _ => Err("must be a string".into()),
        }
    }
    pub fn bool(&self) -> Result<bool, Error> {
        match self {
            Json::Bool(b) => Ok(*b),
            _ => Err("must be true or false".into()),
        }
    }
    pub fn number(&self) -> Result<f64, Error> {
        match self {
            Json::Number(n) => decimal(n).ok_or_else(|| "number out of range".into()),
            _ => Err("must be a number".into()),
        }
    }
    pub fn array(&self) -> Result<&[Json], Error> {
        match self {
            Json::Array(a) => Ok(a),
            _ => Err("must be an array".into()),
        }
    }
    pub fn texts(&self) -> Result<Vec<String>, Error> {
        self.array()?.iter().map(|v| v.text().map(str::to_string)).collect()
    }
}

/// A number as JSON writes it, if it is not too large. Exact for up to 15 digits and powers of ten up to 22; beyond that the
/// last bits may differ. The standard library's parser would add 15 KB to each module.
#[inline(never)]
fn decimal(s: &str) -> Option<f64> {
    let (mut digits, mut power, mut e, mut point, mut exponent, mut negative) = (0u64, 0i32, 0i32, false, false, false);
    for c in s.bytes() {
        match c {
            b'0'..=b'9' if exponent => e = if e < 100_000 { e * 10 + (c - b'0') as i32 } else { e },
            b'0'..=b'9' if digits < 1_000_000_000_000_000_000 => {
                digits = digits * 10 + (c - b'0') as u64;
                power -= point as i32;
            }
            b'0'..=b'9' => power += !point as i32,
            b'.' => point = true,
            b'e' | b'E' => exponent = true,
            _ => negative |= exponent && c == b'-',
        }
    }
    power += if negative { -e } else { e };
    let mut x = digits as f64;
    while power != 0 && x != 0.0 {
        let step = power.abs().min(22);
        let scale = (0..step).fold(1.0, |scale: f64, _| scale * 10.0);
        x = if power < 0 { x / scale } else { x * scale };
        power -= step * power.signum();
        if x.is_infinite() {
            return None;
        }
    }
    Some(if s.starts_with('-') { -x } else { x })
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
    #[inline(never)]
    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }
    #[inline(never)]
    fn eat(&mut self, c: u8) -> bool {
        let found = self.peek() == Some(c);
        self.at += found as usize;
        found
    }
    #[inline(never)]
    fn want(&mut self, c: u8) -> Result<(), Error> {
        self.eat(c).then(|| ()).ok_or_else(|| NOT_JSON.into())
    }

    fn value(&mut self, depth: usize) -> Result<Json, Error> {
        if depth > MAX_DEPTH {
            return Err("more than 128 levels".into());
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => {
                let mut all = Vec::new();
                self.list(b']', |r| r.value(depth + 1).map(|v| all.push(v)))?;
                Ok(Json::Array(all))
            }
            Some(b'"') => self.string().map(Json::Text),
            _ => {
                let words = [("true", Json::Bool(true)), ("false", Json::Bool(false)), ("null", Json::Null)];
                for (word, value) in words {
                    if self.text[self.at..].starts_with(word.as_bytes()) {
                        self.at += word.len();
                        return Ok(value);
                    }
                }
                self.number()
            }
        }
    }

    #[inline(never)]
    fn object(&mut self, depth: usize) -> Result<Json, Error> {
        let mut all: Vec<(String, Json)> = Vec::new();
        self.list(b'}', |r| {
            let name = r.string()?;
            r.space();
            r.want(b':')?;
            r.space();
            if all.iter().any(|m| m.0 == name) {
                return Err([&name, ": given twice"].concat().into());
            }
            r.value(depth + 1).map(|v| all.push((name, v)))
        })?;
        Ok(Json::Object(all))
    }

    /// Items up to the closing byte; the opening one is next.
    fn list(&mut self, closing: u8, mut item: impl FnMut(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        self.at += 1;
        self.space();
        if self.eat(closing) {
            return Ok(());
        }
        loop {
            self.space();
            item(self)?;
            self.space();
            if self.eat(closing) {
                return Ok(());
            }
            self.want(b',')?;
        }
    }

    #[inline(never)]
    fn digits(&mut self) -> Result<(), Error> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        (self.at > start).then(|| ()).ok_or_else(|| NOT_JSON.into())
    }

    fn number(&mut self) -> Result<Json, Error> {
        let start = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _ = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        Ok(Json::Number(text_of(&self.text[start..self.at])))
    }

    #[inline(never)]
    fn string(&mut self) -> Result<String, Error> {
        self.want(b'"')?;
        let mut s = Vec::new();
        loop {
            let start = self.at;
            while !matches!(self.peek(), None | Some(b'"' | b'\\' | 0..=0x1f)) {
                self.at += 1;
            }
            s.extend_from_slice(&self.text[start..self.at]);
            if self.eat(b'"') {
                return Ok(text_of(&s));
            }
            self.want(b'\\')?;
            let c = self.peek().ok_or(NOT_JSON)?;
            self.at += 1;
            s.push(match c {
                b'"' | b'\\' | b'/' => c,
                b'b' => 8,
                b'f' => 12,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'u' => {
                    s.extend_from_slice(self.unicode()?.encode_utf8(&mut [0; 4]).as_bytes());
                    continue;
                }
                _ => return Err(NOT_JSON.into()),
            });
        }
    }

    #[inline(never)]
    fn unicode(&mut self) -> Result<char, Error> {
        let mut u = self.hex4()?;
        if (0xd800..0xdc00).contains(&u) {
            self.want(b'\\')?;
            self.want(b'u')?;
            let low = self.hex4()?;
            if !(0xdc00..0xe000).contains(&low) {
                return Err(NOT_JSON.into());
            }
            u = 0x10000 + ((u - 0xd800) << 10 | (low - 0xdc00));
        }
        char::from_u32(u).ok_or_else(|| NOT_JSON.into())
    }

    fn hex4(&mut self) -> Result<u32, Error> {
        let mut u = 0;
        for _ in 0..4 {
            let digit = match self.peek() {
                Some(c @ b'0'..=b'9') => c - b'0',
                Some(c @ (b'a'..=b'f' | b'A'..=b'F')) => (c | 0x20) - b'a' + 10,
                _ => return Err(NOT_JSON.into()),
            };
            u = u << 4 | digit as u32;
            self.at += 1;
        }
        Ok(u)
    }
}

/// A piece of a document that is UTF-8.
fn text_of(b: &[u8]) -> String {
    String::from_utf8(b.to_vec()).unwrap_or_default()
}

/// The configuration object of the document that yett_init gets.
#[inline(never)]
fn config_of(doc: &[u8]) -> Result<Json, Error> {
    let doc = Json::parse(doc)?;
    for (name, v) in doc.members()? {
        match (name.as_str(), v) {
            ("abi" | "name" | "config", _) => {}
            _ => return Err([name, ": unknown member of the init document"].concat().into()),
        }
    }
    if doc.get("abi") != Some(&Json::Number("1".to_string())) {
        return Err("abi: must be 1".into());
    }
    if let Some(name) = doc.get("name") {
        name.text()?;
    }
    match doc.get("config") {
        None | Some(Json::Null) => Ok(Json::Object(Vec::new())),
        Some(config) => config.members().map(|_| config.clone()),
    }
}

// --------------------------------------------------------------------------------------------------------- the inside

mod host {
    #[link(wasm_import_module = "yett_v1")]
    extern "C" {
        #[rustfmt::skip]
        pub fn emit(kind: *const u8, kind_n: usize, start: usize, end: usize, confidence: f32, severity: i32, action: i32,
            with: *const u8, with_n: usize) -> i32;
        pub fn decide(effect: i32, code: *const u8, code_n: usize, reason: *const u8, reason_n: usize, ttl_ms: u32) -> i32;
        pub fn put(slot: i32, p: *const u8, n: usize) -> i32;
        pub fn log(level: i32, p: *const u8, n: usize);
    }
}

fn put(slot: i32, data: &[u8]) -> i32 {
    unsafe { host::put(slot, data.as_ptr(), data.len()) }
}

fn fail(status: i32, text: &str) -> i32 {
    put(0, &text.as_bytes()[..text.len().min(MAX_PUT)]);
    status
}

/// The first buffer has room for the usual window and its hits: an instance whose memory grows after init is thrown away
/// by the host.
const FIRST_BUFFER: usize = 160 << 10;
const FIRST_HITS: usize = 4096;
const MAX_BUFFER: usize = 256 << 20;
const SCRATCH: usize = 64 << 10;

/// A module made ready: what the exports work on.
pub struct Guest<T> {
    module: Option<T>,
    buffer: Vec<u64>,
    finder: Option<Finder>,
    hits: Vec<Hit>,
    found: Vec<Finding>,
}

/// A variable of a guest, which has one thread only.
pub struct Global<T>(UnsafeCell<Guest<T>>);

unsafe impl<T> Sync for Global<T> {}

impl<T> Global<T> {
    pub const fn new() -> Global<T> {
        Global(UnsafeCell::new(Guest { module: None, buffer: Vec::new(), finder: None, hits: Vec::new(), found: Vec::new() }))
    }
    #[allow(clippy::mut_from_ref)]
    pub fn get(&self) -> &mut Guest<T> {
        unsafe { &mut *self.0.get() } // each export takes it once, and exports do not overlap
    }
}

impl<T: Module> Guest<T> {
    pub fn buffer(&mut self, n: i32) -> *const u64 {
        if n < 0 || n as usize > MAX_BUFFER {
            return std::ptr::null();
        }
        let words = (max(n as usize, FIRST_BUFFER) + 7) / 8;
        if words > self.buffer.len() {
            self.buffer = Vec::new(); // before the new one, so that both need not fit
            self.buffer = vec![0; words];
        }
        self.buffer.as_ptr()
    }

    /// The buffer as bytes. It is looked at through a pointer, because the guest is borrowed beside it.
    fn bytes<'a>(&self, n: u64) -> Option<&'a [u8]> {
        let fits = n <= self.buffer.len() as u64 * 8;
        fits.then(|| unsafe { std::slice::from_raw_parts(self.buffer.as_ptr() as *const u8, n as usize) })
    }

    pub fn init(&mut self, n: i32) -> i32 {
        std::panic::set_hook(Box::new(|p| {
            let mut line = String::new();
            number(&mut line, "panic in line ", p.location().map_or(0, |l| l.line() as u64));
            line.push_str(": ");
            line.push_str(p.payload().downcast_ref::<&str>().copied().unwrap_or("see the source"));
            log(3, &line);
        }));
        match self.start(n) {
            Ok(()) => 0,
            Err(e) => fail(status::BAD_CONFIG, &e.text),
        }
    }

    fn start(&mut self, n: i32) -> Result<(), Error> {
        if self.module.is_some() {
            return Err("initialised twice".into());
        }
        let doc = self.bytes(n as u32 as u64).ok_or("init without a buffer")?;
        let spec: &'static Spec = &T::SPEC;
        if spec.name.is_empty() || spec.version.is_empty() || matches!(spec.stream, Stream::Window { lookbehind: 0 }) {
            return Err("SPEC needs a name, a version and, for a window stream, lookbehind".into());
        }
        let config = config_of(doc)?;
        self.module = Some(T::init(&config)?);
        self.finder = Some(Finder::new(all_triggers(spec, &config)?)?);
        if !spec.triggers.is_empty() || !spec.triggers_from.is_empty() {
            self.hits.reserve(FIRST_HITS);
        }
        if !spec.kinds.is_empty() {
            self.found.reserve(MAX_FINDINGS);
        }
        drop(Vec::<u8>::with_capacity(SCRATCH)); // room for what a call takes, so that memory need not grow
        Ok(())
    }

    pub fn describe(&mut self) -> i32 {
        put(1, describe(&T::SPEC).as_bytes())
    }
}

impl<T: Scanner> Guest<T> {
    pub fn scan(&mut self, state: i32, n: i32, bits: i32) -> i32 {
        let (state, count) = (state as u32 as u64, bits as u32 as u64 >> 8);
        let window = state + n as u32 as u64;
        let hits_at = (window + 3) & !3;
        let all = self.bytes(if count > 0 { hits_at + 8 * count } else { window });
        let (module, finder, all) = match (&mut self.module, &self.finder, all) {
            (Some(m), Some(f), Some(all)) => (m, f, all),
            _ => return fail(status::INTERNAL, "scan before init or without a buffer"),
        };
        let (state, window) = (state as usize, window as usize);
        self.found.clear();
        let mut input = In {
            text: &all[state..window],
            state: &all[..state],
            flags: bits as u32 & 255,
            raw: if count > 0 { &all[hits_at as usize..] } else { &[] },
            hits: &mut self.hits,
            finder,
            searched: false,
        };
        let window = input.text.len();
        let mut out = Out { spec: &T::SPEC, window, found: &mut self.found, err: None, state: None, notes: None };
        if let Err(e) = module.scan(&mut input, &mut out) {
            return fail(if e.status == 0 { status::INTERNAL } else { e.status }, &e.text);
        }
        if let Some(e) = &out.err {
            return fail(e.status, &e.text);
        }
        out.send();
        0
    }
}

impl<T: Authorizer> Guest<T> {
    pub fn check(&mut self, n: i32) -> i32 {
        let call = self.bytes(n as u32 as u64);
        let answer = match (&mut self.module, call) {
            (Some(m), Some(call)) => Json::parse(call).and_then(|call| m.check(&call)),
            _ => Err("check before init or without a buffer".into()),
        };
        match answer {
            Err(e) => fail(if e.status == 0 { status::INTERNAL } else { e.status }, &e.text),
            Ok(d) => unsafe {
                let (code, reason) = (d.code.as_bytes(), d.reason.as_bytes());
                let taken = host::decide(d.effect as i32, code.as_ptr(), code.len(), reason.as_ptr(), reason.len(), d.ttl_ms);
                if taken == 0 { 0 } else { status::INTERNAL }
            },
        }
    }
}

#[inline(never)]
fn quoted(b: &mut String, s: &str) {
    b.push('"');
    for c in s.chars() {
        match c {
            '"' | '\\' => b.push('\\'),
            '\0'..='\x1f' => {
                b.push_str(["\\u000", "\\u001"][c as usize >> 4]);
                b.push(b"0123456789abcdef"[c as usize & 15] as char);
                continue;
            }
            _ => {}
        }
        b.push(c);
    }
    b.push('"');
}

#[inline(never)]
fn number(b: &mut String, name: &str, n: u64) {
    b.push_str(name);
    if n >= 10 {
        number(b, "", n / 10);
    }
    b.push((b'0' + (n % 10) as u8) as char);
}

/// The metadata, members in the order of the ABI's document.
#[inline(never)]
fn describe(s: &Spec) -> String {
    let mut b = String::from("{\"name\":");
    quoted(&mut b, s.name);
    b.push_str(",\"version\":");
    quoted(&mut b, s.version);
    b.push_str(",\"abi\":1");
    for (i, k) in s.kinds.iter().enumerate() {
        b.push_str(if i == 0 { ",\"kinds\":[{\"name\":" } else { ",{\"name\":" });
        quoted(&mut b, k.0);
        number(&mut b, ",\"severity\":", k.1 as u64);
        b.push_str(if i + 1 == s.kinds.len() { "}]" } else { "}" });
    }
    if !s.config.is_empty() {
        b.push_str(",\"config_schema\":");
        b.push_str(s.config);
    }
    match s.stream {
        Stream::None => b.push_str(",\"stream\":{\"mode\":\"none\""),
        Stream::Window { lookbehind } => number(&mut b, ",\"stream\":{\"mode\":\"window\",\"lookbehind\":", lookbehind as u64),
        Stream::Stateful => b.push_str(",\"stream\":{\"mode\":\"stateful\""),
    }
    b.push_str("},\"needs\":{");
    if s.memory_mib > 0 {
        number(&mut b, "\"memory_bytes\":", (s.memory_mib as u64) << 20);
    }
    if s.deadline_ms > 0 {
        number(&mut b, if s.memory_mib > 0 { ",\"deadline_ms\":" } else { "\"deadline_ms\":" }, s.deadline_ms as u64);
    }
    b.push('}');
    for (i, t) in s.triggers.iter().enumerate() {
        b.push_str(if i == 0 { ",\"triggers\":[{" } else { ",{" });
        match *t {
            Trigger::Literal(l) | Trigger::Folded(l) => {
                b.push_str("\"literal\":");
                quoted(&mut b, l);
                b.push_str(if matches!(t, Trigger::Folded(_)) { ",\"fold\":true" } else { "" });
            }
            Trigger::Digits(n) => number(&mut b, "\"class\":\"digits\",\"min\":", n as u64),
            Trigger::Hex(n) => number(&mut b, "\"class\":\"hex\",\"min\":", n as u64),
            Trigger::Base64(n) => number(&mut b, "\"class\":\"base64\",\"min\":", n as u64),
            Trigger::At(n) => number(&mut b, "\"class\":\"at\",\"min\":", n as u64),
        }
        b.push_str(if i + 1 == s.triggers.len() { "}]" } else { "}" });
    }
    for (i, from) in s.triggers_from.iter().enumerate() {
        b.push_str(if i == 0 { ",\"triggers_from\":[{\"path\":" } else { ",{\"path\":" });
        match *from {
            TriggersFrom::Literal(p) => quoted(&mut b, p),
            TriggersFrom::Folded(p) => {
                quoted(&mut b, p);
                b.push_str(",\"fold\":true");
            }
        }
        b.push_str(if i + 1 == s.triggers_from.len() { "}]" } else { "}" });
    }
    b.push('}');
    b
}

/// `export!(Type, scan)`, `export!(Type, check)` or `export!(Type, scan, check)`, once, makes the module.
macro_rules! export {
    ($module:ty, scan, check) => {
        $crate::yett::export!($module, scan);
        $crate::yett::export!(@check $module);
    };
    ($module:ty, scan) => {
        $crate::yett::export!(@module $module);
        #[no_mangle]
        pub extern "C" fn yett_scan(state: i32, n: i32, flags: i32) -> i32 {
            YETT.get().scan(state, n, flags)
        }
    };
    ($module:ty, check) => {
        $crate::yett::export!(@module $module);
        $crate::yett::export!(@check $module);
    };
    (@check $module:ty) => {
        #[no_mangle]
        pub extern "C" fn yett_check(n: i32, _flags: i32) -> i32 {
            YETT.get().check(n)
        }
    };
    (@module $module:ty) => {
        static YETT: $crate::yett::Global<$module> = $crate::yett::Global::new();
        #[no_mangle]
        pub extern "C" fn yett_abi_v1() {}
        #[no_mangle]
        pub extern "C" fn yett_buffer(n: i32) -> *const u64 {
            YETT.get().buffer(n)
        }
        #[no_mangle]
        pub extern "C" fn yett_init(n: i32) -> i32 {
            YETT.get().init(n)
        }
        #[no_mangle]
        pub extern "C" fn yett_describe() -> i32 {
            YETT.get().describe()
        }
    };
}
pub(crate) use export;
