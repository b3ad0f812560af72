"""The wallet of the articles about locks: it holds 100, and fifty spenders need 10 each. Ten are served."""

from concurrent.futures import ThreadPoolExecutor

from fencegate import Lease, call, write

WALLET = "/v1/rows/wallets/42"


def spend(_):
    with Lease("wallet:42", ttl=10, wait="1m", wait_seconds=60) as lease:
        balance = call("GET", WALLET).json()["balance"]
        if balance < 10:
            return False
        write("PATCH", WALLET, lease.token, json={"balance": balance - 10})
        return True


with ThreadPoolExecutor(50) as pool:
    print(sum(pool.map(spend, range(50))), "of 50 were served")
