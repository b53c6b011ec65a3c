# The one image: mcp-connections operator, proxy and serve.
#
#   docker build --tag mcp-connections .
#
# BASE is any image with Python 3.11 or later, venv and a CA bundle. The default is named by tag; a release build gives it
# by digest: --build-arg BASE=python:3.11-slim-bookworm@sha256:...
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
ENV PIP_CONSTRAINT=/src/constraints.txt \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
RUN python3 -m venv /build \
 && python3 -m venv --without-pip /opt/mcp-connections
COPY constraints.txt pyproject.toml LICENSE ./
COPY controller/mcp_connections/__init__.py controller/mcp_connections/
# The dependencies first, of the package without its modules and words: a change of ours leaves these layers as they are.
RUN touch README.md \
 && /build/bin/pip wheel --quiet --wheel-dir /wheels . \
 && rm /wheels/mcp_connections-*.whl \
 && /build/bin/pip --python /opt/mcp-connections/bin/python3 install --quiet --no-index --no-deps /wheels/*.whl
COPY README.md ./
COPY controller controller
RUN /build/bin/pip wheel --quiet --no-deps --wheel-dir /own . \
 && /build/bin/pip --python /opt/mcp-connections/bin/python3 install --quiet --no-index --no-deps /own/*.whl

FROM ${BASE}
# A user with a name and a group of its own: without an entry the kubelet takes the group to be root's.
RUN echo 'nonroot:x:65532:65532::/tmp:/usr/sbin/nologin' >>/etc/passwd && echo 'nonroot:x:65532:' >>/etc/group
COPY --from=build /opt/mcp-connections /opt/mcp-connections
# The root file system may be read-only: what libraries keep for a user goes to /tmp, if to anywhere.
ENV PATH=/opt/mcp-connections/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# By number, so that a cluster can see that it is not root.
USER 65532:65532
EXPOSE 8000 8001 8080
ENTRYPOINT ["mcp-connections"]
# Last: they change with every commit, and what is above does not.
ARG BASE
ARG VERSION=0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="mcp-connections" \
      org.opencontainers.image.description="Many MCP servers behind one endpoint, declared and operated the Kubernetes way." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${BASE}"
