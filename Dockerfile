# Needed for nothing: Penstock is `pip install`. For those whose machines start containers.
#
#     docker build -t penstock .
#     docker run -p 8000:8000 -v penstock:/data penstock                          # a DynamoDB
#     docker run --no-healthcheck -p 8080:8080 -v penstock:/data penstock up --db penstock.db --host 0.0.0.0 --port 8080
#
# The second prints the address to open, with its token. The health check is the first one's.
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir build && python -m build --wheel --outdir /dist

FROM python:3.13-slim
COPY --from=build /dist/*.whl /tmp/
RUN wheel=$(echo /tmp/*.whl) && pip install --no-cache-dir "${wheel}[web]" && rm /tmp/*.whl \
    && useradd --create-home --uid 1000 penstock && install -d -o penstock -g penstock /data
USER penstock
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/')"]
ENTRYPOINT ["penstock"]
CMD ["serve", "--host", "0.0.0.0", "--db", "penstock.db"]
