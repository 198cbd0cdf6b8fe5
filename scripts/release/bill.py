"""The bill of materials of a binary, as CycloneDX 1.6 in JSON."""

import datetime
import hashlib
import json
import uuid


def component(part):
    entry = {
        "type": "library",
        "bom-ref": part.reference,
        "name": part.name,
        "version": part.version,
        "scope": "excluded" if part.build_only else "required",
        "licenses": [{"expression": part.licence}],
    }
    if part.checksum:
        entry["hashes"] = [{"alg": "SHA-256", "content": part.checksum}]
    if part.purl:
        entry["purl"] = part.purl
    if part.repository:
        entry["externalReferences"] = [{"type": "vcs", "url": part.repository}]
    return entry


def cyclonedx(name, binary, parts, release, platform):
    """The document about the program `name`; `parts` are those of parts.of_binary."""
    program, *others = parts
    digest = hashlib.sha256(binary).hexdigest()
    moment = datetime.datetime.fromtimestamp(release.epoch, datetime.UTC)
    root = f"{name}@{release.version}"
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # The same binary gives the same number.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{root} {digest}')}",
        "version": 1,
        "metadata": {
            "timestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": name,
                "version": release.version,
                "licenses": [{"expression": program.licence}],
                "hashes": [{"alg": "SHA-256", "content": digest}],
                "properties": [
                    {"name": "steersman:commit", "value": release.commit},
                    {"name": "steersman:kubernetes", "value": release.kubernetes},
                    {"name": "steersman:target", "value": platform.target},
                ],
            },
        },
        "components": [component(part) for part in others],
        "dependencies": [
            {"ref": root, "dependsOn": sorted(program.needs)},
            *({"ref": part.reference, "dependsOn": sorted(part.needs)} for part in others),
        ],
    }
    return (json.dumps(document, indent=1) + "\n").encode()
