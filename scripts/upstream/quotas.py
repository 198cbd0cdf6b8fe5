"""A case of resource quotas."""

import concurrent.futures
import time

from world import Refused, pod

CASES = {}


def case(name):
    return lambda run: CASES.setdefault(name, run)


@case("quota-exceeded")
def exceeded(world):
    """Users create pods at the limit, while another one changes the quota, so that it is counted again and again."""
    space = world.namespace()
    quota = f"{space}/resourcequotas/q"
    world.create(f"{space}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "20", "secrets": "100"}}})
    world.start_manager("resourcequota-controller")
    world.until("the quota is counted", 60, lambda: world.get(quota).get("status", {}).get("used"))
    end = time.monotonic() + 60

    def count():
        return len(world.all(f"{space}/pods"))

    def create(user):
        at = 0
        while time.monotonic() < end and count() <= 20:
            at += 1
            try:
                world.create(f"{space}/pods", pod(f"p-{user}-{at}"))
            except Refused:
                # A place becomes free, and the race begins again.
                if user == 0 and count() == 20:
                    world.delete(f"{space}/pods/{world.all(f'{space}/pods')[0]['metadata']['name']}", gracePeriodSeconds=0)

    def change():
        at = 0
        while time.monotonic() < end and count() <= 20:
            at += 1
            world.patch(quota, {"spec": {"hard": {"secrets": str(100 + at % 2)}}})

    with concurrent.futures.ThreadPoolExecutor(5) as threads:
        tasks = [threads.submit(create, user) for user in range(4)] + [threads.submit(change)]
        for task in tasks:
            task.result()
    world.pause(5)
    status = world.get(quota)["status"]
    return count() > 20, f"pods in a namespace with a quota of 20: {count()}; used in the status: {status['used']['pods']}"
