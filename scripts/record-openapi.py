#!/usr/bin/env python3
"""Writes the operations of a document of OpenAPI version 2, one a line, for cluster/apiserver/tests/openapi.

    kubectl get --raw /openapi/v2 | scripts/record-openapi.py > cluster/apiserver/tests/openapi/operations.txt.gz

The server has no CustomResourceDefinitions. Descriptions of parameters are left out.
"""

import gzip
import json
import sys

document = json.load(sys.stdin)


def last(reference):
    return reference.rpartition("/")[2]


def parameters(given):
    shown = []
    for one in given:
        if "$ref" in one:
            one = document["parameters"][last(one["$ref"])]
        kind = one.get("type") or last(one["schema"]["$ref"])
        shown.append(f"{one['name']}:{one['in']}:{kind}{'!' if one.get('required') else ''}")
    return " ".join(shown)


def answers(given):
    schema = lambda answer: answer.get("schema", {})
    shown = lambda answer: last(schema(answer).get("$ref", schema(answer).get("type", "")))
    return " ".join(f"{code}={shown(answer)}" for code, answer in sorted(given.items()))


def row(path, method, operation):
    kind = operation.get("x-kubernetes-group-version-kind")
    return [
        path,
        method,
        operation["operationId"],
        operation["description"],
        ",".join(operation["tags"]),
        operation.get("x-kubernetes-action", ""),
        f"{kind['group']}/{kind['version']}/{kind['kind']}" if kind else "",
        ",".join(operation.get("consumes", [])),
        ",".join(operation["produces"]),
        parameters(operation.get("parameters", [])),
        answers(operation["responses"]),
    ]


lines = []
for path, item in sorted(document["paths"].items()):
    for method, value in sorted(item.items()):
        if method == "parameters":
            lines.append(f"{path}\t{method}\t{parameters(value)}\n")
        else:
            lines.append("\t".join(row(path, method, value)) + "\n")
sys.stdout.buffer.write(gzip.compress("".join(lines).encode(), 9, mtime=0))
