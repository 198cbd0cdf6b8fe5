#!/usr/bin/env python3
"""Attacks a leading manager: its HTTPS port with hostile certificates, frames and connections, and its own
thread with the worst objects that users may create. At the end, another manager meets an API server that
refuses it with errors of 1 MiB, and a credential plugin that prints as much.

  cargo build --profile dist && scripts/attack.py [--binary target/dist/steersman] [--only KIND] [--verbose]
  scripts/build-static.sh target/image-binary && scripts/attack.py --binary target/image-binary/steersman --server STEERSMAN
  scripts/attack.py --binary MANAGER --kubeconfig FILE

The script starts `steersman apiserver` and a manager, waits until the manager leads, and sends each
input over connections of its own. With --kubeconfig, the API server is that of a cluster without a
controller manager; a server that is itself slow with the worst objects delays renewals. A second process asks /healthz all the time. The run fails if the
manager ends, if a probe is not answered, if the Lease changes its holder or a renewal fails, or if
memory exceeds its limit. It prints the processor time of the most expensive inputs, the slowest probes
and the largest memory.

The script needs the package cryptography; scripts/test.sh installs it for .venv/bin/python.
"""

import argparse
import base64
import datetime
import http.server
import json
import multiprocessing
import os
import re
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

# Resident memory in MiB that no input may exceed.
MEMORY = 128
# Seconds for an answer. Inputs without an answer end with their connection.
PATIENCE = 15
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HELLO = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
NOW = datetime.datetime.now(datetime.timezone.utc)
DAY = datetime.timedelta(days=1)


# Certificates.


def name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def p256():
    return ec.generate_private_key(ec.SECP256R1())


class Holder:
    """A certificate with its key."""

    def __init__(self, subject, issuer=None, key=None, authority=False, group=None, start=NOW - DAY, end=NOW + DAY, extensions=()):
        self.key, self.name = key or p256(), name(subject)
        shown = self.name
        if group:
            shown = x509.Name([*shown, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)])
        signer = issuer or self
        builder = x509.CertificateBuilder(signer.name, shown, self.key.public_key(), x509.random_serial_number(), start, end)
        if authority:
            builder = builder.add_extension(x509.BasicConstraints(True, None), True)
        for extension in extensions:
            builder = builder.add_extension(extension, False)
        hash_of = None if isinstance(signer.key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
        self.certificate = builder.sign(signer.key, hash_of)

    def pem(self):
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self):
        form = serialization.PrivateFormat.PKCS8
        return self.key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def unknown(count, size=4):
    """Extensions that no program knows."""
    return [x509.UnrecognizedExtension(ObjectIdentifier(f"1.3.6.1.4.1.99999.{at}"), os.urandom(size)) for at in range(count)]


def alternatives(count):
    return x509.SubjectAlternativeName([x509.DNSName(f"name-{at}.example") for at in range(count)])


def usages(*others):
    return x509.ExtendedKeyUsage([ObjectIdentifier(f"1.3.6.1.4.1.99999.{at}") for at in others] or [ExtendedKeyUsageOID.CLIENT_AUTH])


def ladder(root, depth, leaf=()):
    """Leaf first: a leaf below this many intermediates."""
    chain, issuer = [], root
    for level in range(depth):
        issuer = Holder(f"level {level}", issuer, authority=True)
        chain.insert(0, issuer)
    return [Holder("jane", issuer, extensions=leaf), *chain]


def tangle(subject, count, extensions=()):
    """A leaf and intermediates of one name, of which each may be the issuer of each."""
    source = Holder(subject, authority=True)
    others = [Holder(subject, source, authority=True, extensions=extensions) for _ in range(count)]
    return [Holder("jane", source), *others]


def same_key(count):
    source = Holder("same", authority=True)
    others = [Holder("same", source, key=source.key, authority=True) for _ in range(count)]
    return [Holder("jane", source), *others]


def certificates(root):
    """(name, chain)"""
    for count in [*range(1, 10), 20, 40, 80, 160, 240]:
        yield f"{count} intermediates of one name", tangle("same", count)
    for count in range(1, 10):
        yield f"{count} intermediates named as the authority", tangle("clients", count)
    for count in [2, 4, 8, 9, 50, 268]:
        yield f"{count} intermediates of one name and key", same_key(count)
    for depth in range(13):
        yield f"a path of {depth} intermediates", ladder(root, depth)
    for count in [1, 10, 100, 300, 600, 1000, 2000]:
        yield f"{count} alternative names", [Holder("jane", root, extensions=[alternatives(count)])]
    for count in [1, 10, 100, 300, 700, 1500]:
        yield f"{count} unknown extensions", [Holder("jane", root, extensions=unknown(count))]
    for size in [1000, 10_000, 14_000, 40_000]:
        yield f"an extension of {size} bytes", [Holder("jane", root, extensions=unknown(1, size))]
    for count in [1, 10, 100, 600, 1200]:
        yield f"{count} usages", [Holder("jane", root, extensions=[usages(*range(count))])]
    for count in [10, 60, 200]:
        yield f"four ambiguous intermediates with {count} extensions", tangle("clients", 4, unknown(count))
    yield "any usage", [Holder("jane", root, extensions=[x509.ExtendedKeyUsage([ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE])])]
    yield "expired", [Holder("jane", root, start=NOW - 2 * DAY, end=NOW - DAY)]
    yield "not valid yet", [Holder("jane", root, start=NOW + DAY, end=NOW + 2 * DAY)]
    yield "self-signed", [Holder("jane")]
    yield "self-signed as an authority", [Holder("jane", authority=True)]
    yield "the name of the authority", [Holder("clients", authority=True)]
    yield "no common name", [Holder(" ", root)]
    for size in [1, 64]:
        yield f"{size} letters as the common name", [Holder("x" * size, root)]
    keys = {
        "RSA 1024": lambda: rsa.generate_private_key(65537, 1024), "RSA 2048": lambda: rsa.generate_private_key(65537, 2048),
        "RSA 4096": lambda: rsa.generate_private_key(65537, 4096), "RSA with exponent 3": lambda: rsa.generate_private_key(3, 2048),
        "P-384": lambda: ec.generate_private_key(ec.SECP384R1()), "P-521": lambda: ec.generate_private_key(ec.SECP521R1()),
        "Ed25519": ed25519.Ed25519PrivateKey.generate,
    }
    for kind, make in keys.items():
        yield f"a key of {kind}", [Holder("jane", root, key=make())]


# Connections.


class Target:
    def __init__(self, port):
        self.port = port

    def tcp(self):
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE)

    def tls(self, chain=None, protocol="http/1.1"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.set_alpn_protocols([protocol])
        if chain:
            with tempfile.NamedTemporaryFile() as file:
                file.write(chain[0].key_pem() + b"".join(holder.pem() for holder in chain))
                file.flush()
                context.load_cert_chain(file.name)
        return context.wrap_socket(self.tcp(), server_hostname="localhost")

    def client_hello(self):
        """The first message of a handshake."""
        received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            context.wrap_bio(received, sent, server_hostname="localhost").do_handshake()
        except ssl.SSLWantReadError:
            return sent.read()


def exchange(stream, data):
    """Sends data, and returns the first part of the answer, or nothing if the server ends the connection."""
    try:
        stream.sendall(data)
        return stream.recv(65536)
    except OSError:
        return b""
    finally:
        stream.close()


def showing(target, chain):
    def run():
        try:
            exchange(target.tls(chain), HELLO)
        except OSError:
            pass  # A refusal in the handshake.

    return run


def handshakes(target):
    """(name, bytes before TLS)"""
    hello = target.client_hello()
    for at in [1, 2, 4, 5, 6, 9, 20, 43, 44, 60, 100, len(hello) - 1]:
        yield f"a ClientHello that ends after {at} bytes", hello[:at]
    for at in [0, 1, 3, 4, 5, 6, 7, 8, 43, 44, 76, 77, 100, 120, 150]:
        yield f"a ClientHello with a wrong byte {at}", hello[:at] + bytes([hello[at] ^ 0xFF]) + hello[at + 1:]
    for kind in [20, 21, 22, 23, 24, 0, 255]:
        yield f"a record of type {kind}", struct.pack("!BHH", kind, 0x303, 64) + bytes(64)
    for length in [0, 1, 16384, 16385, 65535]:
        yield f"a record of {length} bytes", struct.pack("!BHH", 22, 0x301, length) + os.urandom(length)
    yield "a handshake message of 16 MiB", struct.pack("!BHH", 22, 0x301, 16384) + b"\x01\xff\xff\xff" + bytes(16380)
    yield "records without end", (struct.pack("!BHH", 22, 0x301, 1) + b"\x01") * 20_000
    yield "the ClientHello twice", hello * 2
    yield "HTTP", HELLO
    yield "random bytes", os.urandom(100_000)


def requests():
    """(name, bytes of HTTP/1.1)"""
    def get(path, headers=b"", version=b"1.1"):
        return b"GET " + path + b" HTTP/" + version + b"\r\nhost: x\r\n" + headers + b"\r\n"

    for size in [100, 1000, 8000, 14_000, 60_000, 300_000]:
        yield f"a path of {size} bytes", get(b"/" + b"x" * size)
        yield f"a header of {size} bytes", get(b"/healthz", b"a: " + b"x" * size + b"\r\n")
        yield f"a token of {size} bytes", get(b"/metrics", b"authorization: Bearer " + b"x" * size + b"\r\n")
    for count in [10, 99, 1000, 10_000]:
        yield f"{count} headers", get(b"/healthz", b"a: b\r\n" * count)
        yield f"{count} requests at once", get(b"/healthz") * count
    for path in [b"*", b"/%", b"/%zz", b"/%00", b"//", b"/../..", b"/\xff", b"http://x/metrics", b"/healthz?" + b"exclude=x&" * 1000]:
        yield f"the path {path[:20]}", get(path)
    for method in [b"", b"CONNECT", b"PRI", b"x" * 5000, b"G\0T"]:
        yield f"the method {method[:20]}", method + b" /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
    for header in [b"content-length: -1", b"content-length: 1\r\ncontent-length: 2", b"transfer-encoding: chunked\r\ncontent-length: 1",
                   b"content-length: 18446744073709551616", b"expect: 100-continue", b"upgrade: h2c", b"connection: upgrade\r\nupgrade: websocket"]:
        yield f"the header {header[:30]}", get(b"/healthz", header + b"\r\n")
    for version in [b"0.9", b"2.0", b"9.9"]:
        yield f"HTTP {version}", get(b"/healthz", version=version)
    yield "a chunk of 2^64 bytes", get(b"/healthz", b"transfer-encoding: chunked\r\n") + b"ffffffffffffffff\r\n"


def frame(kind, flags, stream, payload=b""):
    return struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, stream) + payload


def literal(text):
    """HPACK: a literal with at most 2^14 bytes."""
    if len(text) < 127:
        return bytes([len(text)]) + text
    rest, out = len(text) - 127, bytearray([127])
    while rest >= 128:
        out.append(rest % 128 + 128)
        rest //= 128
    return bytes(out) + bytes([rest]) + text


def header(key, value, indexed=False):
    return (b"\x40" if indexed else b"\x00") + literal(key) + literal(value)


def get_block(path=b"/healthz", extra=b""):
    # Method GET and scheme https from the static table.
    return b"\x82\x87" + header(b":path", path) + header(b":authority", b"x") + extra


def frames():
    """(name, bytes of HTTP/2)"""
    settings = PREFACE + frame(4, 0, 0)
    zero_window = PREFACE + frame(4, 0, 0, struct.pack("!HI", 4, 0))

    def headers(stream, path=b"/healthz", extra=b"", flags=5):
        return frame(1, flags, stream, get_block(path, extra))

    def each(count, make):
        return b"".join(make(2 * at + 1) for at in range(count))

    for kind in range(12):
        for length in [0, 3, 8, 300]:
            yield f"a frame of type {kind} with {length} bytes", settings + frame(kind, 0, 0 if kind in (4, 6, 7) else 1, os.urandom(length))
    for count in [1000, 20_000]:
        yield f"{count} settings", settings + frame(4, 0, 0) * count
        yield f"{count} pings", settings + frame(6, 0, 0, bytes(8)) * count
        yield f"{count} empty data frames", settings + headers(1, flags=4) + frame(0, 0, 1) * count
        yield f"{count} window updates", settings + frame(8, 0, 0, struct.pack("!I", 1)) * count
        yield f"{count} priorities", settings + frame(2, 0, 1, struct.pack("!IB", 3, 1)) * count
        yield f"{count} resets", settings + each(count, lambda stream: headers(stream) + frame(3, 0, stream, bytes(4)))
        yield f"{count} continuations", settings + frame(1, 0, 1, get_block()) + frame(9, 0, 1, header(b"a", b"b")) * count
    for count in [100, 250, 1000]:
        yield f"{count} streams", settings + each(count, headers)
        yield f"{count} streams with window 0", zero_window + each(count, headers)
        yield f"{count} long paths with window 0", zero_window + each(count, lambda stream: headers(stream, b"/" + b"x" * 14_000))
        yield f"{count} streams without end", settings + each(count, lambda stream: headers(stream, flags=4))
    bomb = header(b"a", b"x" * 4000, indexed=True) + b"\xbe" * 10_000
    yield "a small block with 40 MB of headers", settings + headers(1, extra=bomb)
    yield "a table of 4 GiB", PREFACE + frame(4, 0, 0, struct.pack("!HI", 1, 0xFFFFFFFF)) + headers(1)
    yield "frames of 16 MiB", PREFACE + frame(4, 0, 0, struct.pack("!HI", 5, 0xFFFFFF)) + headers(1)
    yield "a window that overflows", settings + frame(8, 0, 0, struct.pack("!I", 0x7FFFFFFF)) * 2
    yield "a stream that depends on itself", settings + frame(2, 0, 1, struct.pack("!IB", 1, 1))
    yield "an even stream", settings + headers(2)
    yield "no preface", frame(4, 0, 0) * 100


def inputs(target, root, others):
    """(kind, name, action)"""
    for title, chain in certificates(root):
        yield "certificates", title, showing(target, chain)
    for title, data in handshakes(target):
        yield "handshakes", title, lambda data=data: half_open(target, data)
    for title, data in requests():
        yield "requests", title, lambda data=data: exchange(target.tls(), data)
    for title, data in frames():
        yield "frames", title, lambda data=data: exchange(target.tls(protocol="h2"), data)
    for count in [50, 500, 1500]:
        yield "connections", f"{count} idle ones", lambda count=count: many(count, target.tcp, b"")
        yield "connections", f"{count} with half of a record", lambda count=count: many(count, target.tcp, b"\x16\x03\x01\x02")
    for count in [50, 500]:
        yield "connections", f"{count} after the handshake", lambda count=count: many(count, target.tls, b"")
        yield "connections", f"{count} with half of a request", lambda count=count: many(count, target.tls, b"GET /heal")
    explosion, bound = same_key(268), tangle("clients", 4)
    yield "connections", "500 with a chain that takes minutes", lambda: at_once(500, showing(target, explosion))
    yield "connections", "500 with the worst chain within bounds", lambda: at_once(500, showing(target, bound))
    # Only a scraper has large answers.
    scrape = PREFACE + frame(4, 0, 0, struct.pack("!HI", 4, 0))
    scrape += b"".join(frame(1, 5, 2 * at + 1, get_block(b"/metrics")) for at in range(100))
    yield "connections", "20 with 100 unread answers of /metrics", lambda: many(20, lambda: target.tls([others], "h2"), scrape, 3)


# Objects of users. The API server bounds their size, and the manager's own thread works on them.


def metadata(title, **more):
    return {"name": title, "namespace": "default", **more}


def pods(**more):
    return {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": "main", **more}]}}


def workload(kind, title, template, **spec):
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": template, **spec}
    return "/apis/apps/v1/namespaces/default/" + kind, {"metadata": metadata(title), "spec": spec}


def certificate_request(title, builder, key=None):
    signed = builder.sign(key or p256(), hashes.SHA256())
    request = base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()
    spec = {"signerName": "kubernetes.io/kube-apiserver-client-kubelet", "request": request, "usages": ["digital signature", "client auth"]}
    return "/apis/certificates.k8s.io/v1/certificatesigningrequests", {"metadata": {"name": title}, "spec": spec}


def objects():
    """(name, path of the collection, object)"""
    mebibyte = 1 << 20
    variables = [{"name": f"V{at}", "value": "x" * 1000} for at in range(1000)]
    yield "a Deployment of 1 MiB, whose ReplicaSet and 20 pods are as large", *workload("deployments", "large", pods(env=variables), replicas=20)
    labelled = pods()
    labelled["metadata"]["labels"] |= {f"label-{at}": "x" for at in range(20000, 0, -1)}
    yield "a Deployment with 20,000 labels in its template", *workload("deployments", "labelled", labelled, replicas=5)
    expressions = [{"key": f"key-{at}", "operator": "NotIn", "values": [f"v{value}" for value in range(100)]} for at in range(500)]
    selector = {"matchLabels": {"app": "x"}, "matchExpressions": expressions}
    yield "a Deployment with 500 expressions of 100 values", *workload("deployments", "selecting", pods(), replicas=20, selector=selector)
    yield "a Service whose selector has 10,000 labels", "/api/v1/namespaces/default/services", {
        "metadata": metadata("wide"), "spec": {"selector": {f"label-{at}": "x" for at in range(10000)}, "ports": [{"port": 80}]}}
    addresses = [{"ip": f"10.{at >> 16}.{at >> 8 & 255}.{at & 255}"} for at in range(20000)]
    yield "Endpoints with 20,000 addresses, which get EndpointSlices", "/api/v1/namespaces/default/endpoints", {
        "metadata": metadata("wide"), "subsets": [{"addresses": addresses, "ports": [{"port": 80}]}]}
    job = pods()
    job["spec"]["restartPolicy"] = "Never"
    yield "a Job of 100,000 indexes", "/apis/batch/v1/namespaces/default/jobs", {
        "metadata": metadata("indexed"), "spec": {"completionMode": "Indexed", "completions": 100000, "parallelism": 50, "template": job}}
    yield "a ResourceQuota of 10,000 resources", "/api/v1/namespaces/default/resourcequotas", {
        "metadata": metadata("wide"), "spec": {"hard": {f"count/kinds-{at}.example.com": "1" for at in range(10000)}}}
    rules = [{"apiGroups": [""], "resources": [f"kind-{at}"], "verbs": ["get"]} for at in range(10000)]
    yield "a ClusterRole of 10,000 rules, which is aggregated", "/apis/rbac.authorization.k8s.io/v1/clusterroles", {
        "metadata": {"name": "wide", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}, "rules": rules}
    nested = "true" + " && true" * 1000
    policy = {"matchConstraints": {"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]},
              "validations": [{"expression": nested} for _ in range(64)]}
    yield "a policy with 64 CEL expressions of 9 KB", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", {
        "metadata": {"name": "expressive"}, "spec": policy}
    named = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"), x509.NameAttribute(NameOID.COMMON_NAME, "system:node:x")]))
    extended = named.add_extension(alternatives(35000), False)
    yield "a certificate request with 35,000 names", *certificate_request("named", extended)
    # The builder's own method compares each extension with all before it.
    extensions = [x509.Extension(extension.oid, False, extension) for extension in unknown(30000, 0)]
    extended = x509.CertificateSigningRequestBuilder(named._subject_name, extensions)
    yield "a certificate request with 30,000 extensions", *certificate_request("extended", extended)
    yield "a certificate request with a key of 8,192 bits", *certificate_request("rsa", named, rsa.generate_private_key(65537, 8192))
    yield "a ConfigMap of 1 MiB", "/api/v1/namespaces/default/configmaps", {"metadata": metadata("large"), "data": {"x": "x" * (mebibyte - 1000)}}
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": f"owner-{at}", "uid": f"uid-{at}"} for at in range(5000)]
    yield "a ConfigMap with 5,000 absent owners", "/api/v1/namespaces/default/configmaps", {"metadata": metadata("owned", ownerReferences=owners)}


def written(manager):
    """(kind, name, action): each object comes and goes, and its cost counts until the manager rests."""
    def action(path, body):
        manager.api.send("POST", path, body)
        manager.at_rest()
        manager.api.send("DELETE", f"{path}/{body['metadata']['name']}", {"propagationPolicy": "Background"})
        manager.at_rest()

    for title, path, body in objects():
        yield "objects", title, lambda path=path, body=body: action(path, body)


def half_open(target, data):
    """Sends data and leaves the connection open for a moment, as an attacker with patience does."""
    stream = target.tcp()
    stream.settimeout(0.2)
    exchange(stream, data)


def many(count, connect, data, seconds=1):
    streams = []
    for _ in range(count):
        try:
            streams.append(connect())
            streams[-1].sendall(data)
        except OSError:
            pass  # The server may close the oldest connections.
    time.sleep(seconds)
    for stream in streams:
        stream.close()


def at_once(count, action):
    threads = [threading.Thread(target=lambda: [action() for _ in range(count // 20)]) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# The manager.


def seconds(pid):
    """Processor time by thread: that of the main thread, and that of all."""
    def of(path):
        with open(path) as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    return of(f"/proc/{pid}/task/{pid}/stat"), of(f"/proc/{pid}/stat")


def memory(pid, field):
    """Resident memory in MiB."""
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(rf"{field}:\s+(\d+)", file.read()).group(1)) / 1024


class Manager:
    """A manager that leads a cluster of its own."""

    def __init__(self, binary, server, kubeconfig, folder):
        self.folder, self.root = folder, Holder("clients", authority=True)
        self.master = Holder("master", self.root, group="system:masters")
        authority = f"{folder}/clients.crt"
        with open(authority, "wb") as file:
            file.write(self.root.pem())
        with open(f"{folder}/clients.key", "wb") as file:
            file.write(self.root.key_pem())
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.target = Target(free.getsockname()[1])
        self.log = open(f"{folder}/manager.log", "w+")
        self.server = None
        if not kubeconfig:
            kubeconfig = f"{folder}/kubeconfig"
            self.server = subprocess.Popen(
                [server, "apiserver", "--nodes=0", "--controllers=", f"--write-kubeconfig={kubeconfig}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.wait(lambda: os.path.exists(kubeconfig), "the API server starts")
        self.process = subprocess.Popen(
            [binary, f"--kubeconfig={kubeconfig}", f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}",
             f"--client-ca-file={authority}", f"--cluster-signing-cert-file={authority}", f"--cluster-signing-key-file={folder}/clients.key", f"--secure-port={self.target.port}", "--bind-address=127.0.0.1", f"--cert-dir={folder}"],
            stderr=self.log)
        self.api = Api(kubeconfig)
        self.wait(lambda: (self.lease() or {}).get("holderIdentity"), "the manager leads")

    def wait(self, condition, what):
        limit = time.monotonic() + 60
        while not condition():
            if time.monotonic() > limit:
                sys.exit(f"time is over before {what}")
            time.sleep(0.1)

    def lease(self):
        return self.api.lease()

    def probe(self):
        """Seconds until the answer of /healthz."""
        began = time.monotonic()
        answer = exchange(self.target.tls(), HELLO)
        if b" 200 OK" not in answer[:20]:
            raise RuntimeError(f"/healthz answered {answer[:100]!r}")
        return time.monotonic() - began

    def metrics(self):
        stream, answer = self.target.tls([self.master]), b""
        stream.sendall(HELLO.replace(b"/healthz", b"/metrics"))
        while part := stream.recv(65536):
            answer += part
        return answer.decode()

    def seconds(self):
        return seconds(self.process.pid)

    def memory(self, field="VmRSS"):
        return memory(self.process.pid, field)

    def end(self):
        for process in filter(None, (self.process, self.server)):
            process.terminate()
            process.wait()


    def at_rest(self):
        """Waits until the leading thread takes hardly any processor time for two seconds."""
        last, quiet = self.seconds()[0], 0
        while quiet < 4:
            time.sleep(0.5)
            now = self.seconds()[0]
            quiet, last = (quiet + 1 if now - last < 0.03 else 0), now


class Api:
    """Reads the Lease and writes objects with the credentials of a kubeconfig."""

    def __init__(self, kubeconfig):
        with open(kubeconfig) as file:
            text = file.read()

        def value(key):
            found = re.search(rf"""\b{key}: *["']?([^\s"',}}]+)""", text)
            return found and found.group(1)

        self.url, self.context, token = value("server"), ssl.create_default_context(), value("token")
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        self.headers = {"authorization": f"Bearer {token}"} if token else {}
        if token:
            return
        with tempfile.NamedTemporaryFile() as file:
            file.write(base64.b64decode(value("client-certificate-data")) + base64.b64decode(value("client-key-data")))
            file.flush()
            self.context.load_cert_chain(file.name)

    def send(self, method, path, body):
        headers = {"content-type": "application/json", **self.headers}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers, method=method)
        with urllib.request.urlopen(request, context=self.context) as answer:
            answer.read()

    def lease(self):
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + path, headers=self.headers), context=self.context) as answer:
                return json.load(answer)["spec"]
        except urllib.error.HTTPError:
            return None


class Watch:
    """Asks /healthz and reads the Lease until the end of the attacks, in a process of its own: threads of the attack
    share one interpreter, so a probe among them would measure their turns."""

    def __init__(self, manager):
        self.manager, self.failures = manager, []
        self.probes, self.renewals, self.gap = [], set(), 0
        self.renewed = time.monotonic()
        self.results, there = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("fork").Process(target=self.run, args=(there,), daemon=True)

    def start(self):
        self.process.start()

    def run(self, results):
        while not results.poll(0.05):
            try:
                self.probes.append(self.manager.probe())
                renewal = self.manager.lease()["renewTime"]
            except (OSError, RuntimeError) as error:
                self.failures.append(repr(error))
                continue
            if renewal not in self.renewals:
                self.renewals.add(renewal)
                self.gap = max(self.gap, time.monotonic() - self.renewed)
                self.renewed = time.monotonic()
        results.send((self.failures, self.probes, self.renewals, self.gap))

    def end(self):
        self.results.send("end")
        self.failures, self.probes, self.renewals, self.gap = self.results.recv()
        self.process.join()


class Refusing(http.server.BaseHTTPRequestHandler):
    """An API server that knows its version, and fails all other requests with the largest error."""

    protocol_version = "HTTP/1.1"
    body = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500, "reason": "InternalError", "message": "x" * ((1 << 20) - 1000)}).encode()
    answers = 0

    def do_GET(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        known = {"/version": b'{"major": "1", "minor": "36", "gitVersion": "v1.36.2"}', "/healthz": b"ok"}.get(self.path)
        self.send_response(200 if known else 500)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(known or self.body)))
        self.end_headers()
        self.wfile.write(known or self.body)
        Refusing.answers += known is None

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def log_message(self, *_):
        pass


def refused(binary, folder):
    """Runs a manager for 20 seconds. Its API server sends errors of 1 MiB, and its credential plugin prints as much, with
    credentials that expire after a second. Returns failures."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    holder = Holder("server", None)
    with open(f"{folder}/server.pem", "wb") as file:
        file.write(holder.pem() + holder.key_pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{folder}/server.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with open(f"{folder}/credential.json", "w") as file:
        status = {"token": "t", "expirationTimestamp": "SOON"}
        padding = ["x" * 20] * 40000
        json.dump({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": status, "padding": padding}, file)
    plugin = f"{folder}/plugin"
    with open(plugin, "w") as file:
        file.write(f"#!/bin/sh\necho >>{folder}/plugin.runs\nsed s/SOON/$(date --utc --date=1sec +%FT%TZ)/ {folder}/credential.json\n")
    os.chmod(plugin, 0o700)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": plugin, "interactiveMode": "Never"}}
    with open(f"{folder}/refused", "w") as file:
        json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "x", "users": [{"name": "x", "user": user}],
                   "clusters": [{"name": "x", "cluster": {"server": f"https://127.0.0.1:{server.server_port}", "insecure-skip-tls-verify": True}}],
                   "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]}, file)
    with open(f"{folder}/refused.log", "w") as log:
        manager = subprocess.Popen([binary, f"--kubeconfig={folder}/refused", "--secure-port=0", f"--cert-dir={folder}"], stderr=log)
    try:
        ended = time.monotonic() + 20
        while time.monotonic() < ended and manager.poll() is None:
            time.sleep(0.5)
        if manager.poll() is not None:
            return ["the manager ended while its API server refused it: " + open(f"{folder}/refused.log").read()[-1000:]]
        leading, peak = seconds(manager.pid)[0], memory(manager.pid, "VmHWM")
    finally:
        manager.terminate()
        manager.wait()
        server.shutdown()
    runs = os.path.getsize(f"{folder}/plugin.runs")
    print(f"{Refusing.answers} errors and {runs} outputs of a credential plugin, 1 MiB each: "
          f"{leading:.2f} s of the leading thread in all; memory at most {peak:.0f} MiB")
    return [f"memory reached {peak:.0f} MiB with refused credentials"] if peak > MEMORY else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default="target/dist/steersman")
    parser.add_argument("--server", help="a program with the embedded API server, if --binary is the manager alone")
    parser.add_argument("--kubeconfig", help="the API server of a cluster without a controller manager")
    parser.add_argument("--only", help="certificates, handshakes, requests, frames, connections, objects or answers")
    parser.add_argument("--verbose", action="store_true", help="print each input")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        manager = Manager(arguments.binary, arguments.server or arguments.binary, arguments.kubeconfig, folder)
        try:
            failed = attack(manager, arguments)
        finally:
            manager.end()
        if arguments.only in (None, "answers"):
            failed += refused(arguments.binary, folder)
        if failed:
            print(open(f"{folder}/manager.log").read()[-4000:])
            sys.exit("\n".join(failed))


def attack(manager, arguments):
    before, watch, costs = manager.lease(), Watch(manager), []
    print(f"memory before: {manager.memory():.1f} MiB")
    watch.start()
    for kind, title, action in [*inputs(manager.target, manager.root, manager.master), *written(manager)]:
        if arguments.only and kind != arguments.only:
            continue
        leading, everything = manager.seconds()
        try:
            action()
        except urllib.error.HTTPError as error:
            return [f"the API server refuses {title}: {error.read()[:500]!r}"]
        except OSError:
            pass  # The manager ended the connection. Its own state is examined below.
        after = manager.seconds()
        costs.append((after[1] - everything, after[0] - leading, kind, title))
        if manager.process.poll() is not None:
            return [f"the manager ended after {kind}: {title}"]
        if arguments.verbose:
            print(f"{kind}: {title}: {costs[-1][0]:.2f} s, {manager.memory():.0f} MiB", flush=True)
    time.sleep(3)
    watch.end()
    after, peak = manager.lease(), manager.memory("VmHWM")
    failed = watch.failures[:10]
    for field in ("holderIdentity", "acquireTime", "leaseTransitions"):
        if before[field] != after[field]:
            failed.append(f"{field} of the Lease was {before[field]} and is {after[field]}")
    if 'leader_election_slowpath_total{' in manager.metrics():
        failed.append("a renewal failed")
    if peak > MEMORY:
        failed.append(f"memory reached {peak:.0f} MiB")
    print("processor seconds of all threads, of the leading thread, input:")
    for all_threads, leading, kind, title in sorted(costs, reverse=True)[:12]:
        print(f"{all_threads:8.2f} {leading:6.2f}  {kind}: {title}")
    probes = sorted(watch.probes)
    print(f"{len(costs)} inputs; {len(probes)} probes, the slowest of 100 took {probes[len(probes) * 99 // 100] * 1000:.0f} ms, and of all "
          f"{probes[-1] * 1000:.0f} ms; "
          f"{len(watch.renewals)} renewals, at most {watch.gap:.1f} s apart; memory at most {peak:.0f} MiB")
    return failed


if __name__ == "__main__":
    main()
