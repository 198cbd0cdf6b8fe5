"""The manifest of `kubectl why` for krew. JSON is YAML."""

import hashlib
import json


def manifest(archives, downloads, release):
    """`archives` are triples of a machine, the name of its archive and the bytes; `downloads` is their URL."""
    platforms = [
        {
            "selector": {"matchLabels": {"os": "linux", "arch": platform.go}},
            "uri": f"{downloads}/{name}",
            "sha256": hashlib.sha256(data).hexdigest(),
            "files": [{"from": "steersman", "to": "kubectl-why"}, {"from": "LICENSE", "to": "."}],
            "bin": "kubectl-why",
        }
        for platform, name, data in archives
    ]
    document = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "why"},
        "spec": {
            "version": f"v{release.version}",
            "homepage": release.repository,
            "shortDescription": "Explain why an object is not as wanted",
            "description": "Explains why an object is not in the state that its spec asks for, from what the controllers see.",
            "platforms": platforms,
        },
    }
    return (json.dumps(document, indent=2) + "\n").encode()
