# Two stages: wheels are built and installed in the first, the second holds only what runs.
FROM python:3.13-slim AS build
WORKDIR /src
COPY deploy/requirements.txt deploy/
# What others have published is installed only if it is, to the byte, what was tested.
RUN python -m venv /opt/gateway \
 && /opt/gateway/bin/pip install --no-cache-dir --require-hashes -r deploy/requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY gateway gateway
COPY contract contract
RUN /opt/gateway/bin/pip install --no-cache-dir --no-deps . \
 && /opt/gateway/bin/python -m compileall -q /opt/gateway/lib

FROM python:3.13-slim
RUN useradd --system --uid 10001 --create-home --home-dir /home/gateway gateway \
 && mkdir -p /data && chown gateway:gateway /data
COPY --from=build /opt/gateway /opt/gateway
USER gateway
WORKDIR /home/gateway
ENV PATH=/opt/gateway/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    BRAINS_HOST=0.0.0.0 \
    BRAINS_DATA_DIR=/data
VOLUME /data
EXPOSE 8787
HEALTHCHECK --interval=30s --timeout=3s --start-period=10s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8787/livez', timeout=2)"]
# Listening beyond loopback needs BRAINS_AUTH or BRAINS_TOKEN, and the names that callers use: the container says so
# and stops without them.
CMD ["brains-gateway", "serve"]
