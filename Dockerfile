# One image for all parts: coordinator, drivers, devices, broker. docs/containers.md says how it is built.
ARG BASE=python:3.12-slim-bookworm

FROM ${BASE}
# What the base lacks of: Mosquitto, ip and tc (links), setpriv (to be root no longer).
RUN command -v mosquitto && command -v tc && command -v setpriv || ( \
      apt-get update && \
      DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends mosquitto iproute2 util-linux && \
      rm -rf /var/lib/apt/lists/* )
RUN useradd --uid 1000 --create-home venn && python3 -m venv /opt/venn
WORKDIR /home/venn
ENV PATH=/opt/venn/bin:$PATH PYTHONUNBUFFERED=1 PIP_DISABLE_PIP_VERSION_CHECK=1
ENTRYPOINT ["python", "-m", "testbed.live.throttle.entrypoint"]

# The libraries, without the source: when only that has changed, they are there already.
ARG CERTIFICATES=certificates.pem
ARG WHEELS=wheels
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_NO_INDEX
ARG PIP_TRUSTED_HOST
ARG PIP_PROXY
ARG PIP_TIMEOUT
# A file and a folder that need not be there: a star may match nothing.
COPY pyproject.toml ${CERTIFICATES}* ${WHEELS}* /handed/
RUN cd /handed && touch README.md LICENSE && \
    for bundle in *.pem *.crt; do if [ -f "$bundle" ]; then export PIP_CERT="/handed/$bundle"; fi; done && \
    export PIP_FIND_LINKS="/handed $PIP_FIND_LINKS" && \
    pip install --quiet --no-cache-dir hatchling '.[testbed,data,fast]' && pip uninstall --quiet --yes venn-testbed

COPY . /usr/share/venn
RUN pip install --quiet --no-index --no-deps --no-build-isolation /usr/share/venn
USER venn
