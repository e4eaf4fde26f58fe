"""What stands before an API server in real clusters: a proxy that ends TLS, passes requests on, and
answers some of them itself.

    with Front(kube) as front:
        kube.url(port=front.port)
        front.answer(429, lambda method, path: "watch=1" in path)   # until front.well()
"""

import contextlib
import http.client
import http.server
import json
import socket
import ssl
import threading

REASONS = {429: "TooManyRequests", 500: "InternalError", 502: "BadGateway",
           503: "ServiceUnavailable", 504: "Timeout"}


def status(code):
    """An error as an API server words it."""
    return json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                       "reason": REASONS[code], "message": f"a fault of this test ({code})",
                       "details": {"retryAfterSeconds": 1}}).encode()


class Front:
    def __init__(self, kube):
        self.kube = kube
        self.rule = None
        self.told = 0  # requests that were answered here
        self.live = set()
        front = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def serve(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                rule = front.rule
                if rule and rule[1](self.command, self.path):
                    front.told += 1
                    self.refuse(rule[0])
                else:
                    self.pass_on(body)

            def refuse(self, code):
                text = status(code)
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Retry-After", "1")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def pass_on(self, body):
                try:
                    there = http.client.HTTPSConnection(
                        "localhost", front.kube.port, timeout=60,
                        context=ssl.create_default_context(cafile=str(front.kube.ca)))
                    there.request(self.command, self.path, body or None, dict(self.headers))
                    answer = there.getresponse()
                except OSError:
                    self.refuse(502)
                    return
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                        self.send_header(name, value)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                try:
                    while piece := answer.read1(65536):
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    self.wfile.write(b"0\r\n\r\n")
                except (OSError, http.client.HTTPException):
                    self.close_connection = True
                there.close()

            do_GET = do_PUT = do_POST = do_PATCH = serve

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def finish_request(self, request, address):
                secure = None
                try:  # on its own thread: one that never says hello stops nobody
                    secure = front.tls.wrap_socket(request, server_side=True)
                    front.live.add(secure)
                    self.RequestHandlerClass(secure, address, self)
                except (OSError, ValueError):
                    pass
                finally:
                    front.live.discard(secure)

        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(kube.cert, kube.key)
        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, code, which=lambda method, path: True):
        """From now on the requests that fit are answered by code."""
        self.rule = (code, which)

    def well(self):
        self.rule = None

    def hang_up(self):
        """End all connections, watches too."""
        for connection in list(self.live):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
