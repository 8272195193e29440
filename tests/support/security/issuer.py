"""An OpenID Connect issuer on loopback, a process of its own: ``issuer.py CERTIFICATE KEY DIR``.

It answers each path with the file of that name in DIR: the first line is the status, or
``redirect`` and an address, the rest the body. It prints its port, and appends each path that it
was asked for to the file ``asked``.
"""

import http.server
import ssl
import sys
import urllib.parse
from pathlib import Path


class Handler(http.server.BaseHTTPRequestHandler):
    """Reads one file for each request."""

    directory: Path

    def do_GET(self) -> None:
        name = urllib.parse.quote(self.path, safe="")
        with (self.directory / "asked").open("a") as out:
            out.write(f"{self.path}\n")
        try:
            head, _, body = (self.directory / name).read_bytes().partition(b"\n")
        except FileNotFoundError:
            head, body = b"404", b""
        if head.startswith(b"redirect "):
            self.send_response(302)
            self.send_header("Location", head.split()[1].decode())
        else:
            self.send_response(int(head))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    certificate, key, directory = sys.argv[1:]
    Handler.directory = Path(directory)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
