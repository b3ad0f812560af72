"""What the Python examples need of fencegate: a lease that is kept, and writes that are repeated by the rules.

    with Lease("wallet:42", wait="1m") as lease:
        write("PATCH", "/v1/rows/wallets/42", lease.token, json={"balance": 90})
"""

import os
import threading
import time
import urllib.parse
import uuid

import requests

URL = os.environ.get("FENCEGATE_URL", "http://127.0.0.1:8080")
SESSION = requests.Session()
SESSION.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=100))
if os.environ.get("FENCEGATE_AUTH_TOKEN"):
    SESSION.headers["Authorization"] = "Bearer " + os.environ["FENCEGATE_AUTH_TOKEN"]


class Refused(Exception):
    """A refusal: nothing was changed. code is the gateway's (lease-held, stale-token, precondition-failed, ...)."""

    def __init__(self, problem):
        super().__init__(problem["code"] + ": " + problem.get("detail", ""))
        self.code = problem["code"]
        self.problem = problem


class Lost(Exception):
    """The lease was lost, or could not be renewed in time."""


def call(method, path, timeout=20, tries=5, repeat=True, **request):
    """Sends a request and returns the answer. One whose outcome is unknown is repeated as it is: the gateway knows it again."""
    for left in reversed(range(tries)):
        try:
            answer = SESSION.request(method, URL + path, timeout=timeout, **request)
            if answer.ok:
                return answer
            problem = answer.json()
        except (requests.RequestException, ValueError):  # no answer, or a proxy's
            if not left or not repeat:
                raise
        else:
            again = problem["code"] in ("outcome-unknown", "contention", "overloaded", "unavailable")
            if not again or not left or not repeat:
                raise Refused(problem)
        time.sleep(0.2)


def write(method, path, token, **request):
    """Writes a row or an object under a token."""
    headers = {"X-Fence-Token": str(token), **request.pop("headers", {})}
    return call(method, path, headers=headers, **request)


class Lease:
    """Takes a lease, renews it in the background, and gives it back. Look at `held` before each step of the work."""

    def __init__(self, name, ttl=30.0, wait="0s", wait_seconds=0, holder=None):
        self.path = "/v1/leases/" + urllib.parse.quote(name, safe="")
        self.ttl = ttl
        self.request = {"ttl": f"{ttl}s", "wait": wait, "acquire_id": str(uuid.uuid4())}
        if holder:
            self.request["holder"] = holder
        self.patience = wait_seconds + 20
        self.done = threading.Event()

    def __enter__(self):
        self.grant = call("POST", self.path, timeout=self.patience, json=self.request).json()
        self.headers = {"X-Lease-Id": self.grant["id"]}
        self.deadline = 0.0
        try:
            self.renew()  # the acquire may have waited: from here on it is known how long the lease runs
        except (Refused, requests.RequestException):
            self.release()
            raise
        self.renewals = threading.Thread(target=self.keep, daemon=True)
        self.renewals.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.renewals.join()
        self.release()

    def release(self):
        try:
            call("DELETE", self.path, headers=self.headers)
        except (Refused, requests.RequestException):
            pass  # lost, or it runs out

    @property
    def token(self):
        return self.grant["token"]

    @property
    def held(self):
        """Whether the lease is certainly held. Time asleep counts where the system has a clock for it."""
        return now() < self.deadline

    def check(self):
        if not self.held:
            raise Lost(self.path)

    def keep(self):
        while not self.done.wait(self.ttl / 3):
            try:
                self.renew()
            except Refused as refusal:
                if refusal.code == "lease-lost":
                    self.deadline = 0.0
                    return
            except requests.RequestException:
                pass  # tried again until the deadline

    def renew(self):
        sent = now()  # before the request: the lease runs from later than that
        call("PUT", self.path, timeout=self.ttl / 5, tries=1, headers=self.headers, json={"ttl": f"{self.ttl}s"})
        self.deadline = sent + self.ttl * 0.95


def now():
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
