"""What all processes of a run share (`contract`), and the process that serves it (`process`)."""

import os

# With gRPC's default of this version, epollex, a process with streams on two TCP connections misses that an answer has come: a
# writer then waits five seconds for every confirmation. gRPC reads this when its first channel is made.
os.environ.setdefault("GRPC_POLL_STRATEGY", "epoll1")
