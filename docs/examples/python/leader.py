"""Elects one of several processes: python3 leader.py a & python3 leader.py b &

The leader says every half second that it leads, in an object that only the holder of its lease can write."""

import signal
import sys
import time

import requests

from fencegate import Lease, Lost, Refused, write

NAME = sys.argv[1]


def lead(lease):
    # Each write spends a token of its own, in their order. When they are spent there is another election.
    for token in range(lease.token, lease.grant["token_last"] + 1):
        lease.check()
        write("PUT", "/v1/objects/reports/leader", token, data=NAME)
        time.sleep(0.5)


signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # leaves by way of Lease.__exit__
while True:
    try:
        with Lease("report:leader", ttl=5, wait="1h", wait_seconds=3600, holder=NAME) as lease:
            print(NAME, "leads", flush=True)
            lead(lease)
    except (Lost, Refused, requests.RequestException) as lost:
        print(NAME, "does not lead:", lost, flush=True)
        time.sleep(1)
