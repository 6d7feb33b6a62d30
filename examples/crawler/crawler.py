"""A crawler: one job a page, and no host is asked more often than it should be.

    python crawler.py monday http://localhost:8080/  enqueues the first page of the crawl `monday`
    python crawler.py --list http://localhost:8080/pages.txt   checks every page of a list, as children of one job
    penstock worker crawler:app                      crawls, on as many machines as you like
    penstock jobs list --db crawler.db

1. A page is one job, whose idempotency key is the crawl and its URL: however many pages link to it, it is fetched once.
2. Jobs of one host share a rate and a concurrency limit, on all workers together. While a host's pages wait, those of
   other hosts start: a host with 100,000 pages holds up nobody.
3. The pages of a list, 10,000 or more, are children of one job, which holds no worker while it waits for them.
4. A page that fails is tried again, in a slot of its own; whoever is killed in the middle is replaced.
"""

from __future__ import annotations

import os
import sys
from html.parser import HTMLParser
from urllib.parse import urldefrag, urljoin, urlsplit
from urllib.request import Request, urlopen

import penstock

LARGEST_PAGE = 1_000_000
MOST_LINKS = 500
TIMEOUT_SECONDS = 10

app = penstock.App(os.environ.get("CRAWLER_DB", "crawler.db"))


def host_of(url: str) -> str:
    return urlsplit(url).netloc


@app.task(
    rate=os.environ.get("CRAWLER_RATE", "2/s"),
    rate_key=host_of,
    concurrency_key=host_of,
    max_concurrent=2,
    retries=penstock.RetryPolicy(3, base_seconds=5),
    time_limit_seconds=60,
)
def crawl(crawl_name: str, url: str, hosts: list[str]) -> dict[str, object]:
    """Fetches a page, and enqueues those that it links to on these hosts."""
    kind, text = fetch(url)
    links = [link for link in find_links(url, text) if host_of(link) in hosts] if kind == "text/html" else []
    for link in links:
        start(crawl_name, link, hosts)
    return {"kind": kind, "bytes": len(text), "links": len(links)}


@app.task(rate=os.environ.get("CRAWLER_RATE", "2/s"), rate_key=host_of, retries=penstock.RetryPolicy(3, base_seconds=5))
def check(url: str) -> int:
    """Fetches a page; its bytes."""
    return len(fetch(url)[1])


@app.task()
def check_list(ctx: penstock.JobContext, url: str) -> dict[str, int]:
    """Checks every page of a list, which has one URL a line."""
    pages = ctx.step("pages", lambda: [line.strip() for line in fetch(url)[1].splitlines() if line.strip()])
    found = {"pages": len(pages), "bytes": 0, "failed": 0}
    for size in ctx.results_of((ctx.enqueue(check, url=page) for page in pages), return_exceptions=True):
        if isinstance(size, penstock.JobFailed):
            found["failed"] += 1
        else:
            found["bytes"] += size
    return found


def start(crawl_name: str, url: str, hosts: list[str]) -> penstock.Job:
    """The job of the page; the one that there is, if it has been found before."""
    return crawl.options(idempotency_key=f"{crawl_name} {url}").enqueue(crawl_name=crawl_name, url=url, hosts=hosts)


def fetch(url: str) -> tuple[str, str]:
    """The type of a page, and the beginning of its text."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise ValueError(f"{url} is no page of the web.")
    request = Request(url, headers={"User-Agent": "penstock-crawler"})  # noqa: S310 - see above
    with urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
        kind = answer.headers.get_content_type()
        return kind, answer.read(LARGEST_PAGE).decode(answer.headers.get_content_charset() or "utf-8", "replace")


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def find_links(url: str, text: str) -> list[str]:
    """The pages that a page links to, each once, in order; only those of the web."""
    parser = _Links()
    parser.feed(text)
    links = (urldefrag(urljoin(url, link)).url for link in parser.found)
    web = [link for link in links if urlsplit(link).scheme in ("http", "https") and host_of(link)]
    return list(dict.fromkeys(web))[:MOST_LINKS]


if __name__ == "__main__":
    name, *urls = sys.argv[1:]
    for first in urls:
        job = check_list.enqueue(url=first) if name == "--list" else start(name, first, sorted(map(host_of, urls)))
        print(job.id)
