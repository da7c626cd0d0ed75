"""What every test may use; the fixtures themselves are under tests/fixtures/, one capability a module."""

pytest_plugins = ["tests.fixtures.servers"]
