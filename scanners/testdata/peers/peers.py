"""The peers that are written in Python, behind one protocol. It owns how each is set up and how its findings are told
as bytes of the text. It must never ask the network: no verification of secrets, no list of domains, no model.

    peers.py TOOL

The first line out says what runs. Each line in is {"texts": [...]}, and its answer {"found": [[{kind, start, end,
low}]]}. With "seconds" the texts are scanned in whole passes for that long at least, and the answer is {"bytes",
"cpu", "wall", "found"}.
"""

import importlib.metadata
import inspect
import json
import logging
import os
import pathlib
import sys
import tempfile
import time
import types

# Presidio's mail recogniser would fetch the list of public suffixes: "" makes it use the copy that it has.
os.environ["TLDEXTRACT_PUBLIC_SUFFIX_LIST_URLS"] = ""

WEAK = 0.4  # presidio's findings below are told as low: a word in the context raises a score to this at least


def places(text, value):
    """All places where a value stands in a text, in characters. What does not stand there is told as the whole text."""
    out, at = [], text.find(value) if value else -1
    while at >= 0:
        out.append((at, at + len(value)))
        at = text.find(value, at + 1)
    return out or [(0, len(text))]


def finding(text, kind, start, end, low=False):
    """A finding as the protocol has it: characters become bytes."""
    first = len(text[:start].encode())
    return {"kind": kind, "start": first, "end": first + len(text[start:end].encode()), "low": low}


def version(*names):
    return ", ".join("%s %s" % (n, importlib.metadata.version(n)) for n in names)


class DetectSecrets:
    """detect-secrets with all its plugins and its default filters. It reads files, so a text becomes one in memory."""

    about = version("detect-secrets")
    kinds = ()

    def __init__(self):
        from detect_secrets import settings
        from detect_secrets.core import secrets_collection

        self.collection = secrets_collection.SecretsCollection
        self.settings = settings.default_settings()
        self.settings.__enter__()  # once: a program that scans many texts would do so too
        self.folder = tempfile.TemporaryDirectory(dir=shared_memory())
        self.file = os.path.join(self.folder.name, "text")

    def scan(self, text):
        pathlib.Path(self.file).write_text(text)
        secrets = self.collection()
        secrets.scan_file(self.file)
        return secrets

    def findings(self, text):
        return values_of(text, self.scan(text))


def values_of(text, secrets):
    out = []
    for _, secret in secrets:
        out += [finding(text, secret.type, *place) for place in places(text, secret.secret_value)]
    return out


def shared_memory():
    return "/dev/shm" if os.path.isdir("/dev/shm") else None


def llm_guard(module):
    """A module of llm-guard without its packages' __init__, which import every scanner and with them torch."""
    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    root = pathlib.Path(importlib.metadata.distribution("llm-guard").locate_file("llm_guard"))
    for name in ["", "input_scanners", "output_scanners", "input_scanners/anonymize_helpers"]:
        package = ".".join(["llm_guard", *filter(None, name.split("/"))])
        if package not in sys.modules:
            sys.modules[package] = types.ModuleType(package)
            sys.modules[package].__path__ = [str(root / name)]
    return importlib.import_module("llm_guard." + module)


class GuardSecrets:
    """llm-guard's Secrets as it is. What its detect-secrets found is kept: it tells only whether there was any."""

    about = version("llm-guard")
    kinds = ()

    def __init__(self):
        module = llm_guard("input_scanners.secrets")
        kept = self.kept = []

        class Kept(module.SecretsCollection):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                kept[:] = [self]

        module.SecretsCollection = Kept
        self.folder = tempfile.TemporaryDirectory(dir=shared_memory())
        tempfile.tempdir = self.folder.name  # it leaves a file behind where it fails
        self.scanner = module.Secrets()

    def scan(self, text):
        self.kept.clear()
        return self.scanner.scan(text)

    def findings(self, text):
        _, clean, _ = self.scan(text)
        found = values_of(text, self.kept[0]) if self.kept else []
        if clean == bool(found):
            raise RuntimeError("llm-guard says clean=%s with %d findings" % (clean, len(found)))
        return found


def words_engine():
    """Presidio's engine without a model, but with words: spaCy's rules for English part them, and a word in lower case
    stands for its lemma, so that words in the context count."""
    import spacy
    from presidio_analyzer.nlp_engine import NlpArtifacts, NoOpNlpEngine

    class Words(NoOpNlpEngine):
        def __init__(self):
            super().__init__([{"lang_code": lang, "model_name": "none"} for lang in ("en", "zh")])
            self.words = spacy.blank("en")
            self.words.max_length = 1 << 30

        def process_text(self, text, language):
            doc = self.words.make_doc(text)
            return NlpArtifacts(entities=[], tokens=doc, tokens_indices=[t.idx for t in doc],
                                lemmas=[t.lower_ for t in doc], nlp_engine=self, language=language, scores=[])

        def is_stopword(self, word, language):
            return word in self.words.Defaults.stop_words

        def is_punct(self, word, language):
            return not any(c.isalnum() for c in word)

    engine = Words()
    engine.load()
    return engine


class Presidio:
    """presidio-analyzer with every recogniser of patterns that it ships, of all countries, and no model. Any score
    counts by default there, so that words in the context change nothing, and it is spared them."""

    about = version("presidio-analyzer")
    entities = None
    threshold = 0

    def engine(self):
        from presidio_analyzer.nlp_engine import NoOpNlpEngine

        engine = NoOpNlpEngine([{"lang_code": "en", "model_name": "none"}])
        engine.load()
        return engine

    def __init__(self):
        import presidio_analyzer
        from presidio_analyzer import predefined_recognizers as shipped

        registry = presidio_analyzer.RecognizerRegistry(supported_languages=["en"])
        for _, one in inspect.getmembers(shipped, inspect.isclass):
            phone = one.__module__.rsplit(".", 1)[1] in ("phone_recognizer", "za_phone_number_recognizer")
            if issubclass(one, presidio_analyzer.PatternRecognizer) or phone:
                registry.add_recognizer(one(supported_language="en"))
        self.analyzer = presidio_analyzer.AnalyzerEngine(registry=registry, nlp_engine=self.engine(),
                                                         supported_languages=["en"])
        self.kinds = sorted(self.analyzer.get_supported_entities("en"))
        self.about += ", %d recognisers" % len(registry.recognizers)

    def scan(self, text):
        return self.analyzer.analyze(text=text, language="en", entities=self.entities, score_threshold=self.threshold)

    def findings(self, text):
        return [finding(text, r.entity_type, r.start, r.end, r.score < WEAK) for r in self.scan(text)]


class PresidioWords(Presidio):
    """The same with the words around a match, which raise scores."""

    def engine(self):
        return words_engine()


class GuardAnonymize(Presidio):
    """llm-guard's Anonymize with its own patterns and presidio's, its default entities and threshold, and no model."""

    about = version("llm-guard", "presidio-analyzer")

    def __init__(self):
        import presidio_analyzer

        class NoModel(presidio_analyzer.EntityRecognizer):
            def __init__(self, **_):
                super().__init__(supported_entities=["PERSON"], supported_language="en")

            def load(self):
                pass

            def analyze(self, text, entities, nlp_artifacts):
                return []

        llm_guard("util").device = lambda: "cpu"  # it would ask torch
        helpers = sys.modules["llm_guard.input_scanners.anonymize_helpers"]
        model = types.ModuleType(helpers.__name__ + ".transformers_recognizer")
        model.TransformersRecognizer = NoModel
        sys.modules[model.__name__] = model
        analyzer = importlib.import_module(helpers.__name__ + ".analyzer")
        analyzer._get_nlp_engine = lambda languages: words_engine()
        helpers.get_analyzer = analyzer.get_analyzer
        helpers.get_regex_patterns = importlib.import_module(helpers.__name__ + ".regex_patterns").get_regex_patterns
        helpers.get_transformers_recognizer = NoModel
        helpers.get_fake_value = helpers.DEBERTA_AI4PRIVACY_v2_CONF = None
        scanner = importlib.import_module("llm_guard.input_scanners.anonymize").Anonymize(
            importlib.import_module("llm_guard.vault").Vault(), recognizer_conf={"no": "model"})
        self.analyzer, self.entities, self.threshold = scanner._analyzer, scanner._entity_types, scanner._threshold
        self.clean = scanner.remove_single_quotes
        self.kinds = sorted(set(self.entities) - {"PERSON", "CUSTOM"})

    def scan(self, text):
        return super().scan(self.clean(text))


class Whole:
    """A scanner of llm-guard that tells only whether it found something: a finding is the whole text."""

    about = version("llm-guard")
    kinds = ()

    def scan(self, text):
        return not all(s.scan(text)[1] for s in self.scanners)

    def findings(self, text):
        return [finding(text, "found", 0, len(text))] if self.scan(text) else []


class GuardBanned(Whole):
    """BanSubstrings with the two lists that llm-guard ships, of what attacks ask for and of what a jailbreak prints."""

    def __init__(self):
        banned = llm_guard("input_scanners.ban_substrings")
        lists = banned.PROMPT_STOP_SUBSTRINGS + llm_guard("output_scanners.ban_substrings").OUTPUT_STOP_SUBSTRINGS
        self.scanners = [banned.BanSubstrings(lists)]


class GuardInvisible(Whole):
    def __init__(self):
        self.scanners = [llm_guard("input_scanners.invisible_text").InvisibleText()]


TOOLS = {"detect-secrets": DetectSecrets, "llm-guard Secrets": GuardSecrets, "presidio": Presidio,
         "presidio with words": PresidioWords,
         "llm-guard Anonymize": GuardAnonymize, "llm-guard BanSubstrings": GuardBanned,
         "llm-guard InvisibleText": GuardInvisible}


def timed(tool, texts, seconds):
    cpu, wall, size, found = time.process_time(), time.perf_counter(), 0, 0
    each = sum(len(t.encode()) for t in texts)
    while True:
        for text in texts:
            tool.scan(text)
        size += each
        if time.process_time() - cpu >= seconds:
            break
    out = {"bytes": size, "cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    return out | {"found": sum(len(tool.findings(t)) for t in texts)}


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    logging.disable(logging.CRITICAL)
    tool = TOOLS[sys.argv[1]]()
    print(json.dumps({"about": tool.about, "kinds": tool.kinds}), file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if "seconds" in asked:
            answer = timed(tool, asked["texts"], asked["seconds"])
        else:
            answer = {"found": [tool.findings(t) for t in asked["texts"]]}
        print(json.dumps(answer), file=answers, flush=True)


main()
