#!/usr/bin/env python3
"""Prints a test run's slowest packages with their budgets from CONTRIBUTING.md, and its slowest tests.

Usage: slowest.py FILE. `gotestsum --jsonfile FILE` writes the file.
"""
import json
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
module = re.search(r"^module (\S+)", (root / "go.mod").read_text(), re.M).group(1)
budgets = {name: float(minutes) * 60 for name, minutes in re.findall(r"^\| `(\S+)` \| ([\d.]+) \|$", (root / "CONTRIBUTING.md").read_text(), re.M)}
rest = budgets.pop("*", float("inf"))

packages, tests = {}, {}
for line in open(sys.argv[1]):
    try:
        event = json.loads(line)
    except json.JSONDecodeError:
        continue  # the run ended within this line
    if event["Action"] in ("pass", "fail"):
        name = event["Package"].removeprefix(module).removeprefix("/") or "."
        if "Test" in event:
            tests[name, event["Test"]] = event["Elapsed"]
        else:
            packages[name] = event["Elapsed"]
parents = {(name, test.rsplit("/", 1)[0]) for name, test in tests if "/" in test}


def slowest(of, n):
    return sorted(of, key=of.get, reverse=True)[:n]


print(f"\n{'package':40}{'seconds':>8}{'budget':>8}")
for name in slowest(packages, 15):
    budget = budgets.get(name, rest)
    print(f"{name:40}{packages[name]:8.0f}{budget:8.0f}{'  over' if packages[name] > budget else ''}")
print(f"\n{'test':110}{'seconds':>8}")
for name, test in slowest({t: s for t, s in tests.items() if t not in parents}, 20):
    print(f"{f'{name}: {test}':110}{tests[name, test]:8.1f}")
