"""A llama.cpp server for tests, run by the Python of an environment with xllamacpp: ``server.py MODEL.gguf [TOKENS]``.

It prints its address once it answers, and ends when its standard input closes.
"""

import sys


def main() -> None:
    """Start, tell the address, wait for the end."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = sys.argv[1]
    settings.n_ctx = int(sys.argv[2]) if len(sys.argv) > 2 else 4096
    settings.n_parallel = 1
    # One thread: several wait for each other, and where the machine is busy that takes five times as long.
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    settings.hostnames = ["127.0.0.1"]
    settings.port = 0
    server = xllamacpp.Server(settings)
    print(f"listening on {server.listening_address}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
