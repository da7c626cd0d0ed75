# The image of all three processes and of the command line. One file for every architecture: all that is not
# Python comes as wheels. docker buildx build --platform linux/amd64,linux/arm64 -t podium:0.1.0 .
# The base is pinned by digest, and a bot proposes newer ones. Another one: --build-arg BASE=...
ARG BASE=python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b
FROM ${BASE} AS build
# With it, two builds of one commit are equal: compiled files then hold a hash of their source instead of its date.
ARG SOURCE_DATE_EPOCH
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/podium
WORKDIR /src
# The dependencies by hash, in a layer that only the lock file changes.
COPY requirements.lock .
RUN /opt/podium/bin/pip install --only-binary=:all: --require-hashes --requirement requirements.lock
COPY . .
# Compiled here, for the file system of a running container is read-only. What only builds stays out of the image.
RUN /opt/podium/bin/pip install --no-deps --no-build-isolation . \
    && /opt/podium/bin/pip uninstall --yes hatchling pathspec pluggy trove-classifiers packaging tomlkit pip

FROM ${BASE}
COPY --from=build /opt/podium /opt/podium
ENV PATH=/opt/podium/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# By number, which is how runAsNonRoot knows that it is not root.
USER 65532:65532
# A module or library that this stage lacks fails the build, and not the first pod. Commands import the last two late.
RUN python -c "import podium.webhooks.process, podium.controllers.process, podium.schedulerplugin.live.process, kubernetes_asyncio, uvloop" \
    && podium --version
ENTRYPOINT ["podium"]
