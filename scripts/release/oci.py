"""The image for all machines, as an archive in the OCI image layout, without a container engine.

binary, licences -> layer -> configuration -> manifest for each machine -> index -> archive with its tags
"""

import datetime
import hashlib
import json

import archives
from archives import Entry

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIGURATION = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def encoded(document):
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


class Layout:
    """Blobs by their digests."""

    def __init__(self):
        self.blobs = {}

    def add(self, kind, data, **more):
        """Keeps a blob, and returns its descriptor."""
        self.blobs[digest(data)] = data
        return {"mediaType": kind, "digest": digest(data), "size": len(data), **more}


def image(layout, platform, entries, settings, release):
    """Adds the image of one machine, and returns the descriptor of its manifest."""
    content = archives.tar(entries, release.epoch, folders=True)
    layer = layout.add(LAYER, archives.gzip(content))
    created = datetime.datetime.fromtimestamp(release.epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    configuration = layout.add(CONFIGURATION, encoded({
        "architecture": platform.go,
        "os": "linux",
        "created": created,
        "config": {
            "User": settings.user,
            "Env": settings.environment,
            "Entrypoint": settings.entrypoint,
            "ExposedPorts": {port: {} for port in settings.ports},
            "Labels": settings.labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [digest(content)]},
        "history": [{"created": created, "created_by": "scripts/release.sh"}],
    }))
    manifest = encoded({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": configuration,
        "layers": [layer],
        "annotations": settings.labels,
    })
    return layout.add(MANIFEST, manifest, platform={"architecture": platform.go, "os": "linux"})


def archive(images, settings, tags, release):
    """The archive. `images` are pairs of a machine and the entries of its layer."""
    layout = Layout()
    manifests = [image(layout, platform, entries, settings, release) for platform, entries in images]
    index = layout.add(INDEX, encoded({
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": manifests,
        "annotations": settings.labels,
    }))
    tagged = [{**index, "annotations": {"org.opencontainers.image.ref.name": tag}} for tag in tags]
    files = [
        Entry("oci-layout", encoded({"imageLayoutVersion": "1.0.0"})),
        Entry("index.json", encoded({"schemaVersion": 2, "mediaType": INDEX, "manifests": tagged})),
    ]
    files += [Entry(f"blobs/{name.replace(':', '/')}", data) for name, data in layout.blobs.items()]
    return archives.tar(files, release.epoch, folders=True)
