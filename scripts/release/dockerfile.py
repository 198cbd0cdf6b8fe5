"""The configuration of the image, read from the last stage of the Dockerfile, so that it is stated once."""

import json
import re
import shlex
from dataclasses import dataclass, field


@dataclass
class Configuration:
    labels: dict = field(default_factory=dict)
    environment: list = field(default_factory=list)
    user: str = ""
    ports: list = field(default_factory=list)
    entrypoint: list = field(default_factory=list)
    # Sources and destinations of COPY; /out/ is the folder of the build's stage.
    copies: list = field(default_factory=list)


def instructions(text):
    """Instructions with their arguments; lines that end in a backslash go on."""
    joined = re.sub(r"\\\n", " ", "\n".join(line for line in text.splitlines() if not line.startswith("#")))
    for line in joined.splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word.upper(), rest.strip()


def last_stage(text, arguments):
    """The configuration of the last stage. `arguments` replace the defaults of ARG."""
    stages = []
    for word, rest in instructions(text):
        if word == "FROM":
            stages.append([])
        elif stages:
            stages[-1].append((word, rest))
    found, values = Configuration(), {}
    for word, rest in stages[-1]:
        filled = re.sub(r"\$\{(\w+)\}", lambda name: values[name[1]], rest)
        match word:
            case "ARG":
                name, _, default = rest.partition("=")
                values[name] = arguments.get(name, "".join(shlex.split(default)))
            case "LABEL":
                found.labels.update(pair.split("=", 1) for pair in shlex.split(filled))
            case "ENV":
                found.environment += shlex.split(filled)
            case "USER":
                found.user = filled
            case "EXPOSE":
                found.ports += [port if "/" in port else f"{port}/tcp" for port in filled.split()]
            case "ENTRYPOINT":
                found.entrypoint = json.loads(filled)
            case "COPY":
                source, destination = [word for word in filled.split() if not word.startswith("--")]
                found.copies.append((source, destination))
            case _:
                raise ValueError(f"the last stage of the Dockerfile has {word}, which needs a container engine")
    return found
