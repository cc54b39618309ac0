"""An authorizer in Python: calls of some tools that move more than a limit are denied.

This file is the author's part. What every plugin needs is in yett_plugin.py.
"""

import decimal
import json
import re

import yett_plugin
from yett_plugin import Problem, Verdict

INFO = yett_plugin.Info(
    name="amounts-python",
    version="1.0.0",
    description="denies calls whose amount is above a limit",
    config_schema=json.dumps({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": False,
        "required": ["tools", "limit"],
        "properties": {
            "tools": {"type": "array", "minItems": 1, "maxItems": 100,
                      "items": {"type": "string", "minLength": 1, "maxLength": 256}},
            "limit": {"type": "number", "minimum": 0, "maximum": 1000000000},
        },
    }),
    example_config=json.dumps({"tools": ["payments/*"], "limit": 100}),
)


def problems(config):
    """What is wrong with the settings. It has no effect: the gateway also asks for settings that never come into force."""
    found = []
    for name in config:
        if name not in ("tools", "limit"):
            found.append(Problem("/" + name, "unknown member"))
    tools = config.get("tools")
    if not isinstance(tools, list) or not tools or not all(isinstance(t, str) and t for t in tools):
        found.append(Problem("/tools", "must be a list of patterns, at least one"))
    limit = config.get("limit")
    if not isinstance(limit, (int, decimal.Decimal)) or isinstance(limit, bool) or limit < 0:
        found.append(Problem("/limit", "must be a number that is not negative"))
    return found


def pattern(glob):
    """The gateway's patterns of tools: * within one segment, ** across. fnmatch differs: its * crosses segments, and [a] is a set."""
    return re.compile("".join({"": "", "*": "[^/]*"}.get(part, ".*") if not part.strip("*") else re.escape(part)
                              for part in re.split(r"(\*+)", glob)), re.DOTALL)


def amount_of(args):
    """The one amount that a tool can mean: where it is spelt in a second way, nobody knows which of the two the tool will take."""
    if any(name != "amount" and name.casefold() == "amount" for name in args):
        return None
    amount = args.get("amount")
    if not isinstance(amount, (int, decimal.Decimal)) or isinstance(amount, bool) or amount < 0:
        return None
    return amount


class Amounts:
    """The plugin. Its settings are set once, before the first call, and never changed."""

    info = INFO

    def __init__(self):
        self.tools, self.limit = [], decimal.Decimal(0)

    def validate(self, settings):
        return problems(settings.config)

    def configure(self, settings):
        self.tools, self.limit = [pattern(t) for t in settings.config["tools"]], settings.config["limit"]
        settings.log.info("configured for %d patterns", len(self.tools))

    async def check(self, call):
        if not any(tools.fullmatch(call.tool_id) for tools in self.tools):
            return Verdict.abstain()
        amount = amount_of(call.args)
        if amount is None:
            return Verdict.deny("AMOUNT_UNREADABLE", reason="there is no amount to hold against the limit")
        if amount > self.limit:
            return Verdict.deny("AMOUNT_TOO_HIGH", reason=f"the limit is {self.limit}", rule_id="limit")
        return Verdict.permit("AMOUNT_OK")


def main():
    yett_plugin.serve(Amounts())
