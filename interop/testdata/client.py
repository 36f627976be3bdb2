"""A client of netcode 1.02 and of volley URLs, written from docs/netcode.md and
docs/secure.md alone.

It reads a connect token in base64, or a URL, from its input, opens a session,
sends messages of many sizes, and expects each of them back. With the argument
"wait" it sends one, and waits until the server ends the session.
"""

import base64
import hashlib
import http.client
import socket
import ssl
import struct
import sys
import time
import urllib.parse

from cryptography import x509
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

VERSION = b"NETCODE 1.02\0"
DENIED, CHALLENGE, RESPONSE, KEEP_ALIVE, PAYLOAD, DISCONNECT = range(1, 7)
MAX_MESSAGE = 1200
PACE = 0.1  # seconds between requests, and between responses
WINDOW = 256  # sequences that are told apart


class Token:
    """The public part of a connect token."""

    def __init__(self, raw):
        if len(raw) != 2048 or raw[:13] != VERSION:
            raise ValueError("this is no connect token of netcode 1.02")
        self.protocol = raw[13:21]
        self.request = b"\0" + raw[:21] + raw[29:37] + raw[37:61] + raw[61:1085]
        self.timeout, count = struct.unpack_from("<iI", raw, 1085)
        self.servers = []
        at = 1093
        for _ in range(count):
            if raw[at] == 1:
                host = socket.inet_ntop(socket.AF_INET, raw[at + 1 : at + 5])
                at += 5
            elif raw[at] == 2:
                words = struct.unpack_from("<8H", raw, at + 1)
                host = socket.inet_ntop(socket.AF_INET6, struct.pack(">8H", *words))
                at += 17
            else:
                raise ValueError("an address of unknown family")
            (port,) = struct.unpack_from("<H", raw, at)
            at += 2
            self.servers.append((host, port))
        self.client_key = raw[at : at + 32]
        self.server_key = raw[at + 32 : at + 64]


class Sealer:
    """Seals the packets of one direction and opens those of the other."""

    def __init__(self, token):
        self.out = ChaCha20Poly1305(token.client_key)
        self.back = ChaCha20Poly1305(token.server_key)
        self.data = VERSION + token.protocol
        self.sequence = 0
        self.newest = -1
        self.seen = set()

    def seal(self, kind, body):
        number = self.sequence
        self.sequence += 1
        size = max(1, (number.bit_length() + 7) // 8)
        first = bytes([size << 4 | kind])
        nonce = bytes(4) + number.to_bytes(8, "little")
        return first + number.to_bytes(size, "little") + self.out.encrypt(nonce, body, self.data + first)

    def open(self, packet):
        """Returns the type and the body, or None for what is not authentic or not new."""
        if len(packet) < 18:
            return None
        kind, size = packet[0] & 15, packet[0] >> 4
        if not 1 <= size <= 8 or len(packet) < 1 + size + 16 or kind not in range(1, 7):
            return None
        number = int.from_bytes(packet[1 : 1 + size], "little")
        protected = kind >= KEEP_ALIVE
        if protected and (number in self.seen or number <= self.newest - WINDOW):
            return None
        nonce = bytes(4) + number.to_bytes(8, "little")
        try:
            body = self.back.decrypt(nonce, packet[1 + size :], self.data + packet[:1])
        except InvalidTag:
            return None
        if protected:
            self.newest = max(self.newest, number)
            self.seen = {n for n in self.seen if n > self.newest - WINDOW} | {number}
        return kind, body


def fetch(url):
    """Asks the server of a volley URL for a connect token, over TLS 1.3."""
    parts = urllib.parse.urlsplit(url)
    pins = parts.fragment.split(",")
    if parts.scheme != "volley" or any(len(pin) != 52 for pin in pins):
        raise ValueError("this is no volley URL with pins")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the pin is looked at in place of names and dates
    context.set_alpn_protocols(["volley/1"])
    server = http.client.HTTPSConnection(parts.hostname, parts.port or 7777, timeout=10, context=context)
    server.connect()
    key = x509.load_der_x509_certificate(server.sock.getpeercert(True)).public_key()
    digest = hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()
    pin = base64.b32encode(digest).decode().lower().rstrip("=")
    if pin not in pins:
        raise PermissionError(f"the server has the key {pin}, and the URL says {pins}")
    host, port = server.sock.getpeername()[:2]
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    server.request("POST", "/.well-known/volley", headers={"Volley-Server": address})
    reply = server.getresponse()
    body = reply.read()
    if reply.status != 200:
        raise PermissionError(f"{reply.status}: {body.decode().strip()}")
    return body


class Session:
    """A session, from the request to the end."""

    band = b""  # in front of each payload

    def __init__(self, token):
        self.token = token
        self.sealer = Sealer(token)
        for server in token.servers:
            if self.connect(server):
                return
        raise TimeoutError("no server has accepted the token")

    def connect(self, server):
        family = socket.AF_INET6 if ":" in server[0] else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.connect(server)
        challenge = self.exchange(lambda: self.token.request, CHALLENGE)
        if challenge is None:
            return False
        if self.exchange(lambda: self.sealer.seal(RESPONSE, challenge), KEEP_ALIVE) is None:
            return False
        self.send(KEEP_ALIVE, bytes(8))
        return True

    def exchange(self, packet, wanted):
        """Sends packets until one of the wanted type comes. Returns its body."""
        end = time.monotonic() + (self.token.timeout if self.token.timeout > 0 else 10)
        while time.monotonic() < end:
            self.socket.send(packet())
            again = time.monotonic() + PACE
            while (left := again - time.monotonic()) > 0:
                got = self.receive(left)
                if got and got[0] == wanted:
                    return got[1]
                if got and got[0] == DENIED:
                    return None
        return None

    def send(self, kind, body=b""):
        self.socket.send(self.sealer.seal(kind, body))
        self.sent = time.monotonic()

    def receive(self, seconds):
        self.socket.settimeout(max(seconds, 0.001))
        try:
            packet = self.socket.recv(2048)
        except (TimeoutError, ConnectionRefusedError):
            return None
        got = self.sealer.open(packet)
        if got:
            self.heard = time.monotonic()
        return got

    def write(self, message):
        self.send(PAYLOAD, self.band + message)

    def read(self, seconds):
        """Returns the next payload, or None after a while. An end is an error."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            got = self.receive(min(left, PACE))
            if got and got[0] == PAYLOAD and got[1].startswith(self.band):
                return got[1][len(self.band) :]
            if got and got[0] == PAYLOAD and got[1].startswith(b"\1\1"):
                print(f"the server says: {got[1][2:].decode()}")
                raise ConnectionResetError
            if got and got[0] == DISCONNECT:
                raise ConnectionResetError
            if 0 < self.token.timeout < time.monotonic() - self.heard:
                raise TimeoutError("nothing comes from the server")
            if time.monotonic() - self.sent > 1:
                self.send(KEEP_ALIVE, bytes(8))
        return None

    def close(self):
        for _ in range(10):
            self.send(DISCONNECT)
        self.socket.close()


def message(size):
    return bytes((size * 7 + i * 131) & 255 for i in range(size))


def echo(session):
    """Sends a message of each size, and again until it comes back."""
    count = 0
    largest = MAX_MESSAGE - len(session.band)
    for size in [*range(1, 40), *range(40, largest, 17), largest]:
        for _ in range(30):
            session.write(message(size))
            got = session.read(1)
            while got is not None and got != message(size):
                if len(got) >= size:
                    raise ValueError(f"a message of {size} bytes came back as one of {len(got)}")
                got = session.read(1)  # an echo of one that was sent again
            if got is not None:
                break
        else:
            raise TimeoutError(f"a message of {size} bytes does not come back")
        count += 1
    return count


def main():
    what = sys.stdin.read().strip()
    if what.startswith("volley:"):
        Session.band = b"\0"
        session = Session(Token(fetch(what)))
    else:
        session = Session(Token(base64.b64decode(what)))
    if "wait" in sys.argv[1:]:
        session.write(b"here")
        try:
            while True:
                session.read(60)
        except ConnectionResetError:
            print("the server has ended the session")
        return
    print(f"{echo(session)} messages came back")
    session.close()


main()
