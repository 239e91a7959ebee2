"""Serves moto, one request at a time.

moto was made for one caller: under parallel requests it loses updates and hands one message to two receivers. Behind one
lock it does neither. A ReceiveMessage that waits would hold that lock, so it is asked again and again without waiting; and
a receiver that has left takes no message along.

Prints the address when it answers, and ends when its standard input is closed.
"""

import functools
import io
import json
import logging
import os
import socket
import sys
import threading
import time
import warnings

try:
    import moto.backends
    import moto.core.responses
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        create_backend_app,
    )
    from werkzeug.serving import WSGIRequestHandler, make_server
except ImportError as missing:
    print(f"missing: {missing}", flush=True)
    sys.exit(0)

RECEIVE = "AmazonSQS.ReceiveMessage"
PAUSE = 0.02  # seconds between two looks into an empty queue


def remember():
    """moto lists its own folders and the methods of a service at each request, which is most of what a small one takes."""
    folders = tuple(moto.backends.list_of_moto_modules())
    moto.backends.list_of_moto_modules = lambda: folders
    moto.core.responses.method_names_from_class = functools.cache(moto.core.responses.method_names_from_class)


class OneAtATime:
    """A WSGI application that runs another one under a lock."""

    def __init__(self, app):
        self.app = app
        self.lock = threading.Lock()

    def __call__(self, environ, start_response):
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if environ.get("HTTP_X_AMZ_TARGET") == RECEIVE:
            status, headers, answer = self.receive(environ, body)
        else:
            status, headers, answer = self.once(environ, body)
        start_response(status, headers)
        return answer

    def receive(self, environ, body):
        ask = json.loads(body)
        wait = ask.get("WaitTimeSeconds", 0)
        if 0 <= wait <= 20:  # moto refuses others
            body = json.dumps(dict(ask, WaitTimeSeconds=0)).encode()
        until = time.monotonic() + wait
        while True:
            status, headers, answer = self.once(environ, body)
            if time.monotonic() >= until or not status.startswith("200") or b'"Messages"' in b"".join(answer):
                return status, headers, answer
            time.sleep(PAUSE)

    def once(self, environ, body):
        said = []
        call = dict(environ, CONTENT_LENGTH=str(len(body)))
        call["wsgi.input"] = io.BytesIO(body)
        with self.lock:
            if has_left(environ["werkzeug.socket"]):
                raise ConnectionAbortedError("the caller has left")
            try:
                answer = list(self.app(call, lambda *a: said.append(a)))
            except Exception as failure:  # moto's own, or what it has not built
                reason = f"{type(failure).__name__}: {failure}"
                body = json.dumps({"__type": "InternalFailure", "message": reason}).encode()
                return "500 Internal Server Error", [("Content-Type", "application/x-amz-json-1.0")], [body]
        return said[-1][0], said[-1][1], answer


def has_left(caller):
    try:
        return caller.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


class InOnePiece(WSGIRequestHandler):
    """Sends the headers and the body of an answer together.

    werkzeug closes each connection after its answer. A client of Go that sees the headers first may close it too, before it
    has read the body: its writer finds the request's body closed already, and takes that for a failure.
    """

    protocol_version = "HTTP/1.1"
    wbufsize = -1


def end_with_parent():
    sys.stdin.buffer.read()
    os._exit(0)


threading.Thread(target=end_with_parent, daemon=True).start()
logging.getLogger("werkzeug").setLevel(logging.ERROR)
# A function that is deployed and called would run in a container, or not, as the machine has it. Here none does.
os.environ["DOCKER_HOST"] = "unix:///dev/null"
# Of what moto does not make of a template docs/stand-ins.md has the list, and a test holds it to the truth.
logging.getLogger("moto").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="moto")
remember()
app = OneAtATime(DomainDispatcherApplication(create_backend_app))
server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=InOnePiece)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
sys.stdout = sys.stderr
server.serve_forever()
