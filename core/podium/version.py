"""The version of this installation, which the build reads. `importlib.metadata` takes 25 ms to import."""

VERSION = "0.1.0"
