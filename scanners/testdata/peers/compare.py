"""Drives Yett's scanners and their peers over the same labelled rows and the same texts, and prints Markdown tables.

Every tool is a process of its own on one core and speaks the protocol of peers.py. It owns what is counted and how. It
must never treat a tool that fails as one that finds nothing: an error of any tool ends the run.
"""

import argparse
import collections
import gzip
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

import texts

Row = collections.namedtuple("Row", "text positive spans entity source")  # spans: (start, end, entity) in bytes
Column = collections.namedtuple("Column", "title tool loud")  # loud: findings that are told as low do not count

COLUMNS = {
    "secrets": [Column("Yett", "yett secrets", False), Column("gitleaks", "gitleaks", False),
                Column("detect-secrets", "detect-secrets", False),
                Column("llm-guard Secrets", "llm-guard Secrets", False)],
    "pii": [Column("Yett", "yett pii", False), Column("Yett, above low", "yett pii", True),
            Column("presidio", "presidio", False), Column("presidio, 0.4 and more", "presidio with words", True),
            Column("llm-guard Anonymize", "llm-guard Anonymize", False)],
    "injection": [Column("Yett", "yett injection", False), Column("Yett, above low", "yett injection", True),
                  Column("llm-guard BanSubstrings", "llm-guard BanSubstrings", False),
                  Column("llm-guard InvisibleText", "llm-guard InvisibleText", False)],
}

# As scanners/secrets/quality_test.go has it.
UUID_LIKE = ("UUID", "Nonce", "AWS S3 Bucket", "Firebase Domain", "AWS Client ID")

# Which kinds answer for an entity of pii_sentences: Yett's as scanners/pii/quality_test.go has them, and the peers'.
SENTENCES = {
    "CREDIT_CARD": {"PII_CREDIT_CARD", "CREDIT_CARD", "CREDIT_CARD_RE"},
    "EMAIL_ADDRESS": {"PII_EMAIL", "EMAIL_ADDRESS", "EMAIL_ADDRESS_RE"},
    "PHONE_NUMBER": {"PII_PHONE", "PHONE_NUMBER"},
    "IBAN_CODE": {"PII_IBAN", "IBAN_CODE"},
    "IP_ADDRESS": {"PII_IP_ADDRESS", "IP_ADDRESS"},
    "US_SSN": {"PII_US_SSN", "US_SSN", "US_SSN_RE"},
    "US_DRIVER_LICENSE": {"PII_US_DRIVER_LICENSE", "PII_US_PASSPORT", "PII_IT_DRIVER_LICENSE", "PII_DE_FUEHRERSCHEIN",
                          "US_DRIVER_LICENSE", "US_PASSPORT", "IT_DRIVER_LICENSE", "DE_FUEHRERSCHEIN"},
    "DOMAIN_NAME": {"PII_URL", "URL"},
    "DATE_TIME": {"PII_DATE_TIME", "PII_DATE_OF_BIRTH", "DATE_TIME"},
    "AGE": {"PII_AGE"},
    "ZIP_CODE": {"PII_ZIP_CODE", "PII_UK_POSTCODE", "UK_POSTCODE", "CA_POSTAL_CODE", "DE_PLZ"},
}
DATES_AND_PAGES = {"PII_DATE_TIME", "PII_AGE", "PII_URL", "DATE_TIME", "URL"}  # harmless in what tools put out
MAIL = SENTENCES["EMAIL_ADDRESS"]
CUSTOMERS = {"PII_DATE_OF_BIRTH", "PII_POSTAL_ADDRESS", "PII_ZIP_CODE", "DE_PLZ"}  # true in the records of tau-bench


class Tool:
    """One tool's process."""

    def __init__(self, command):
        env = dict(os.environ, GOMAXPROCS="1", PYTHONUTF8="1", PYTHONWARNINGS="ignore", OMP_NUM_THREADS="1")
        self.process = subprocess.Popen(["taskset", "-c", "0", *command], env=env, text=True, encoding="utf-8",
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.command = command
        hello = self.read()
        self.about, self.kinds = hello["about"], hello["kinds"]
        self.known = {}

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("%s ended with code %s: see what it printed" % (self.command, self.process.wait()))
        return json.loads(line)

    def ask(self, **question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return self.read()

    def learn(self, rows, step=64):
        """Scans all texts of rows that it has not scanned yet."""
        new = sorted({r.text for r in rows} - self.known.keys())
        for at in range(0, len(new), step):
            part = new[at:at + step]
            answer = self.ask(texts=part)
            if len(answer["found"]) != len(part):
                sys.exit("%s gave %d answers to %d texts" % (self.command, len(answer["found"]), len(part)))
            for i, text in enumerate(part):
                self.known[text] = answer["found"][i]

    def close(self):
        self.process.stdin.close()
        if self.process.wait():
            sys.exit("%s ended with code %d: see what it printed" % (self.command, self.process.returncode))


def tools(options):
    python = [sys.executable, str(pathlib.Path(__file__).with_name("peers.py"))]
    out = {}
    for name in sorted({c.tool for columns in COLUMNS.values() for c in columns}):
        first, _, rest = name.partition(" ")
        own = first in ("yett", "gitleaks")
        out[name] = Tool([os.path.join(options.bin, first), *rest.split()] if own else [*python, name])
    kinds = json.loads(pathlib.Path(options.bin, "pii.json").read_text())["kinds"]
    out["yett pii"].kinds = [k["name"] for k in kinds]
    return out


def well_formed(value):
    """A string as each tool can read it: half a surrogate pair becomes U+FFFD, as Go's JSON has it."""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def read(options, name):
    with gzip.open(os.path.join(options.data, name + ".jsonl.gz"), "rt", encoding="utf-8") as lines:
        for i, line in enumerate(lines):
            if options.rows and i == options.rows:
                break
            row = json.loads(line)
            row["text"] = well_formed(row["text"])
            yield row


def string_spans(row):
    """Places of labelled strings; none when the row names none. A string that is not in the text is the whole text."""
    spans, text = [], row["text"].encode()
    for value in row.get("spans") or []:
        at = text.find(well_formed(value).encode()) if isinstance(value, str) and value else -1
        spans.append((at, at + len(well_formed(value).encode()), "") if at >= 0 else (0, len(text), ""))
    return spans


def placed_spans(row):
    text = row["text"]
    return [(len(text[:s["start"]].encode()), len(text[:s["end"]].encode()), s.get("entity", ""))
            for s in row.get("spans") or []]


def load(options):
    """The rows of every set, both halves together."""
    plain = lambda r, positive: Row(r["text"], positive, string_spans(r), "", r.get("source", ""))
    sets = {name: [plain(r, r["secret"]) for r in read(options, name)] for name in ("secrets", "secrets_misc")}
    both = {r.text for r in sets["secrets"] if r.positive}
    sets["secrets_once"] = [r for r in sets["secrets"] if r.positive or r.text not in both]
    sets["secrets_creddata"] = [plain(r, r["label"] == "T") for r in read(options, "secrets_creddata")
                                if r["label"] != "X" and not any(u in r["rule"] for u in UUID_LIKE)]
    sets["injection"] = [plain(r, r["injection"]) for r in read(options, "injection")]
    sets["benign_outputs"] = [plain(r, False) for r in read(options, "benign_outputs")]
    sets["pii"] = [Row(r["text"], r["pii"], placed_spans(r), r["entity"], "") for r in read(options, "pii")]
    sets["pii_sentences"] = [Row(r["text"], True, placed_spans(r), "", "") for r in read(options, "pii_sentences")]
    return sets


def touching(found, start, end):
    return any(f["start"] < end and start < f["end"] for f in found)


def touches(row, found):
    """A finding overlaps a labelled span; any finding will do where none is labelled."""
    return any(touching(found, s, e) for s, e, _ in row.spans) if row.spans else bool(found)


def names(kind, entity):
    """Whether the words of one are among those of the other, as in scanners/pii/quality_test.go."""
    a, b = sorted((set(kind.removeprefix("PII_").split("_")), set(entity.split("_"))), key=len)
    return a <= b


class Count:
    """Rows that hold something and rows that do not, and in how many of each something was found."""

    def __init__(self):
        self.positive = self.hit = self.negative = self.wrong = 0

    def add(self, positive, found):
        if positive:
            self.positive, self.hit = self.positive + 1, self.hit + found
        else:
            self.negative, self.wrong = self.negative + 1, self.wrong + found

    def cell(self):
        part = lambda n, of: "%.3f" % (n / of) if of else "–"
        return " / ".join([part(self.hit, self.positive)] * bool(self.positive) +
                          [part(self.wrong, self.negative)] * bool(self.negative))

    def size(self):
        return " + ".join(str(n) for n in (self.positive, self.negative) if n)


def count(rows, see):
    out = Count()
    for row in rows:
        found = see(row.text)
        out.add(row.positive, touches(row, found) if row.positive else bool(found))
    return out


def count_entities(rows, see, entities):
    """Rows about one entity: a negative one is negative for this entity only."""
    out = Count()
    for row in rows:
        if row.entity in entities:
            found = see(row.text)
            about = any(names(f["kind"], row.entity) for f in found)
            out.add(row.positive, touches(row, found) if row.positive else about)
    return out


def count_sentences(rows, see, entities):
    """A sentence with a labelled entity is positive, and found if a finding of such a kind touches its label."""
    out = Count()
    for row in rows:
        found = see(row.text)
        of = {e: [f for f in found if f["kind"] in SENTENCES[e]] for e in entities}
        labels = [s for s in row.spans if s[2] in entities]
        out.add(bool(labels), any(touching(of[e], s, t) for s, t, e in labels) if labels else any(of.values()))
    return out


def count_outputs(rows, see):
    """Outputs of tools: mail addresses are personal data there, and so are the customers of tau-bench."""
    out = Count()
    for row in rows:
        fine = DATES_AND_PAGES | MAIL | (CUSTOMERS if row.source == "tau-bench" else set())
        out.add(False, any(f["kind"] not in fine for f in see(row.text)))
    return out


def both_have(all_tools, rows, *peers):
    """The entities of rows for which Yett and each peer have a kind."""
    sides = [all_tools[name].kinds for name in ("yett pii", *peers)]
    return {r.entity for r in rows if all(any(names(k, r.entity) for k in kinds) for kinds in sides)}


def both_have_sentences(all_tools, *peers):
    sides = [set(all_tools[name].kinds) for name in ("yett pii", *peers)]
    return {e for e, kinds in SENTENCES.items() if all(kinds & side for side in sides)}


def quality(scanner, sets, all_tools):
    """Lines of a table: what is counted, and a Count for each column; None where a column has no part in it."""
    def line(title, counter, rows, *more, skip=()):
        counts = []
        for column in COLUMNS[scanner]:
            tool = all_tools[column.tool]
            tool.learn(rows)
            see = lambda text: [f for f in tool.known[text] if not (column.loud and f["low"])]
            counts.append(None if column.tool in skip else counter(rows, see, *more))
        return title, counts

    if scanner == "secrets":
        return [line("`secrets`", count, sets["secrets"]),
                line("the same without texts under both labels", count, sets["secrets_once"]),
                line("`secrets_misc`", count, sets["secrets_misc"]),
                line("`secrets_creddata`, not UUID-like", count, sets["secrets_creddata"]),
                line("`benign_outputs`", count, sets["benign_outputs"])]
    if scanner == "injection":
        return [line("`injection`", count, sets["injection"]), line("`benign_outputs`", count, sets["benign_outputs"])]
    out, few = [], "llm-guard Anonymize"
    for peers, whose, skip in (["presidio"], "of Yett and presidio", [few]), (["presidio", few], "of all", []):
        entities = both_have(all_tools, sets["pii"], *peers)
        out.append(line("`pii`, %d entities %s" % (len(entities), whose), count_entities, sets["pii"], entities,
                        skip=skip))
        entities = both_have_sentences(all_tools, *peers)
        out.append(line("`pii_sentences`, %d entities %s" % (len(entities), whose), count_sentences,
                        sets["pii_sentences"], entities, skip=skip))
    return out + [line("`benign_outputs`", count_outputs, sets["benign_outputs"])]


def speeds(scanner, made, all_tools, options):
    """MB/s of every round by text and tool, the tools in turn in each round."""
    out = {}
    for _ in range(options.rounds):
        for title, part in made.items():
            for name in dict.fromkeys(c.tool for c in COLUMNS[scanner]):
                answer = all_tools[name].ask(texts=part, seconds=options.seconds)
                one = out.setdefault(title, {}).setdefault(name, {"mbs": [], "mbs_wall": []})
                for key, clock in ("mbs", "cpu"), ("mbs_wall", "wall"):
                    one[key].append(float("%.4g" % (answer["bytes"] / 1e6 / answer[clock])))
                one["found"] = answer["found"]
    return out


def digits(value):
    """Two or three digits of a figure that differs from run to run."""
    return "%.0f" % value if value >= 99.5 else "%.2g" % value


def speed_cell(of_text, tool):
    """The median, and by how much Yett is faster: the median of the rounds' ratios."""
    mine = of_text[next(iter(of_text))]["mbs"]
    rate = digits(statistics.median(of_text[tool]["mbs"]))
    if tool.startswith("yett"):
        return rate
    return "%s (%s×)" % (rate, digits(statistics.median(m / t for m, t in zip(mine, of_text[tool]["mbs"]))))


def table(scanner, lines, rates):
    columns = COLUMNS[scanner]
    out = ["| | " + " | ".join(c.title for c in columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for title, counts in lines:
        sizes = next(c for c in counts if c)
        what = "recall / false" if sizes.positive and sizes.negative else "recall" if sizes.positive else "false"
        cells = [c.cell() if c else "" for c in counts]
        out.append("| %s (%s): %s | %s |" % (title, sizes.size(), what, " | ".join(cells)))
    for title, of_text in rates.items():
        first = {c.tool: c for c in reversed(columns)}  # columns of one tool have one speed
        cells = [speed_cell(of_text, c.tool) if first[c.tool] is c else "" for c in columns]
        out.append("| MB/s, %s | %s |" % (title, " | ".join(cells)))
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description="Compare Yett's scanners with what one would pick instead.")
    parser.add_argument("data", help="folder with the labelled sets")
    parser.add_argument("bin", help="folder with yett, gitleaks and pii.json, as run.sh makes it")
    parser.add_argument("--json", help="file for the raw figures")
    parser.add_argument("--rows", type=int, default=0, help="rows of each set; 0: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5, help="least processor time of one measurement")
    parser.add_argument("--kib", type=int, default=64, help="size of the texts that speed is measured on")
    options = parser.parse_args()

    sets, all_tools = load(options), tools(options)
    outputs = [r.text for r in sets["benign_outputs"]]
    cleaned = [t for t, called in zip(outputs, all_tools["yett secrets"].ask(texts=outputs)["called"]) if not called]
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        processor = next((l.split(":")[1].strip() for l in lines if l.startswith("model name")), platform.machine())
    about = sorted({t.about for t in all_tools.values()} | {"Python " + platform.python_version()})
    raw = {"processor": processor, "cores": os.cpu_count(), "about": about}
    print("Processor: %s, one core of %d. %s." % (processor, os.cpu_count(), "; ".join(about)))
    for scanner in COLUMNS:
        print("comparing", scanner, file=sys.stderr, flush=True)
        lines = quality(scanner, sets, all_tools)
        made = {"clean": texts.joined(cleaned, options.kib << 10), "real": texts.joined(outputs, options.kib << 10)}
        made["dirty"] = texts.dirty(scanner, made["real"])
        rates = speeds(scanner, made, all_tools, options)
        raw[scanner] = {"columns": [c.title for c in COLUMNS[scanner]], "speed": rates,
                        "bytes": {title: sum(len(t.encode()) for t in part) for title, part in made.items()},
                        "quality": {title: [c and vars(c) for c in counts] for title, counts in lines}}
        print("\n## %s\n\n%s" % (scanner, table(scanner, lines, rates)), flush=True)
    for tool in all_tools.values():
        tool.close()
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(raw, indent=1, ensure_ascii=False) + "\n")


main()
