"""A webhook process without an API server: the real server and handlers over a small cluster.

For tests that look at the process from outside, such as the memory it holds. `python standin.py` prints its port.
"""
