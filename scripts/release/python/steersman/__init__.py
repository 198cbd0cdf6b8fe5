"""A Kubernetes API server in memory, with simulated nodes and all controllers, for tests.

    with steersman.Server(nodes=2) as server:
        kubernetes.config.load_kube_config(server.kubeconfig)
        namespace = server.namespace()

pytest finds the fixtures `steersman_server`, `steersman_namespace` and `steersman_cluster` by itself.
"""

import os
import sysconfig

from .server import Cluster, Fault, RequestError, Server

__all__ = ["Cluster", "Fault", "RequestError", "Server", "path"]


def path():
    """The path of the program `steersman`: that of the variable STEERSMAN, or the one of this package."""
    given = os.environ.get("STEERSMAN")
    if given:
        return given
    schemes = [None, sysconfig.get_preferred_scheme("user")]
    folders = [sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts") for scheme in schemes]
    # `pip install --target` puts it beside the package.
    folders.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin"))
    for folder in folders:
        found = os.path.join(folder, "steersman")
        if os.path.isfile(found):
            return found
    raise FileNotFoundError(f"the program steersman is in none of {', '.join(folders)}; install the package again")
