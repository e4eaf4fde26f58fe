"""A server whose watches never stop talking.

    with Flood(line, lambda path: (200, b"...")) as flood:   # what is no watch is answered so
        flood.port
"""

import contextlib
import http.server
import threading


class Flood:
    def __init__(self, line, answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def serve(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with contextlib.suppress(OSError):
                    if "watch" in self.path:
                        self.talk()
                    else:
                        self.tell(*answer(self.path))

            def talk(self):
                many = line * 3000
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                while True:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(many), many))

            def tell(self, code, body):
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = serve

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
