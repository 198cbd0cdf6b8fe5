#!/usr/bin/env python3
"""Writes parts of the documents of OpenAPI of the server in $KUBECONFIG, one a line, for cluster/apiserver/tests/openapi.

    scripts/record-openapi.py operations > cluster/apiserver/tests/openapi/operations.txt.gz
    scripts/record-openapi.py definitions > cluster/apiserver/tests/openapi/definitions.txt.gz
    scripts/record-openapi.py schemas > cluster/apiserver/tests/openapi/schemas.txt.gz

Operations and definitions are those of version 2, schemas those of version 3. The server has no
CustomResourceDefinitions. Descriptions of parameters are left out. Of the descriptions of types and fields there are
checksums, without the meanings of values.
"""

import gzip
import json
import subprocess
import sys
import zlib


def get(path):
    return json.loads(subprocess.run(["kubectl", "get", "--raw", path], stdout=subprocess.PIPE, check=True).stdout)


def last(reference):
    return reference.rpartition("/")[2]


def parameters(document, given):
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


def row(document, path, method, operation):
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
        parameters(document, operation.get("parameters", [])),
        answers(operation["responses"]),
    ]


def operations():
    document = get("/openapi/v2")
    for path, item in sorted(document["paths"].items()):
        for method, value in sorted(item.items()):
            if method == "parameters":
                yield [path, method, parameters(document, value)]
            else:
                yield row(document, path, method, value)


def definition(name, field, schema):
    schema = dict(schema)
    described = schema.pop("description", "").partition("Possible enum values:")[0].rstrip()
    schema.pop("properties", None)
    if "required" in schema:
        schema["required"].sort()
    return [name, field, json.dumps(schema, sort_keys=True, separators=(",", ":")), f"{zlib.crc32(described.encode()):08x}"]


def types(schemas):
    for name, schema in sorted(schemas.items()):
        yield definition(name, "", schema)
        for field, of_field in sorted(schema.get("properties", {}).items()):
            yield definition(name, field, of_field)


def definitions():
    yield from types(get("/openapi/v2")["definitions"])


def schemas():
    """The names of the types of each document, and all types."""
    found = set()
    for path, entry in sorted(get("/openapi/v3")["paths"].items()):
        of_document = get(entry["serverRelativeURL"]).get("components", {}).get("schemas", {})
        yield [path, *sorted(of_document)]
        found.update(tuple(columns) for columns in types(of_document))
    yield from sorted(found)


rows = {"operations": operations, "definitions": definitions, "schemas": schemas}[sys.argv[1]]()
text = "".join("\t".join(columns) + "\n" for columns in rows)
sys.stdout.buffer.write(gzip.compress(text.encode(), 9, mtime=0))
