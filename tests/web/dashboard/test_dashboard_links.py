"""Where a page leads to: searches with any name in them, and the jobs that a sentence names."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from dashboard_world import World
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from penstock.jobs.model.job import JobError
from penstock.web.dashboard.job_list import Filter, jobs_address
from penstock.web.dashboard.site import linked, sentence

ODD = 'Größe & "Söhne" GmbH: status:failed'


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def listed(world: World, address: str) -> list[str]:
    return re.findall(r'<tr data-key="([^"]+)"', world.page(address))


def address_in(page: str, around: str) -> str:
    """Of the first link with this text."""
    found = re.search(rf'<a[^>]* href="([^"]+)"[^>]*>(?:<b>)?{re.escape(str(escape(around)))}<', page)
    assert found is not None, page
    return html.unescape(found[1])


def test_the_overview_leads_to_the_blocked_jobs_of_a_tenant_with_any_name(world: World) -> None:
    world.store.pause("mail", "the provider is down")
    blocked = world.made("send_mail", queue="mail", tenant=ODD)
    world.made("send_mail", queue="mail", tenant="Größe")
    world.app.state.site.overview.refresh()
    assert listed(world, address_in(world.page("/"), ODD)) == [blocked.id]


def test_a_jobs_page_leads_to_its_tenant_its_queue_its_tags_and_its_key(world: World) -> None:
    job = world.made(queue="my queue", tenant=ODD, tags=("a tag",), concurrency_key="tenant:acme", max_concurrent=1)
    world.made(queue="my", tenant="Größe", concurrency_key="acme", max_concurrent=1)
    page = world.page(f"/jobs/{job.id}")
    for name in (ODD, "my queue", "a tag", "tenant:acme"):
        assert listed(world, address_in(page, name)) == [job.id], name


def test_the_limits_lead_to_the_jobs_that_they_block_and_not_to_a_warning(world: World) -> None:
    world.running(concurrency_key="import:acme", max_concurrent=1)
    blocked = world.made(concurrency_key="import:acme", max_concurrent=1)
    world.store.pools.set_aside_limited([blocked])
    world.made(concurrency_key="import:acme-2", max_concurrent=1)
    world.app.state.site.overview.refresh()
    row = re.search(r'data-key="concurrency-import:acme">.*?</tr>', world.page("/queues"), re.S)
    assert row is not None
    address = address_in(row[0], "1")
    assert listed(world, address) == [blocked.id]
    assert "There is no filter" not in world.page(address)


@given(st.text(min_size=1, max_size=30).filter(lambda text: text.strip() and "\0" not in text))
def test_a_search_for_a_name_is_read_as_it_was_written(name: str) -> None:
    address = jobs_address(status="failed", tenant=name, queue=name, key=name)
    assert address.startswith("/jobs?q=")
    criteria = Filter.parse(str(Filter(tenant=name, queue=name, key=name)))
    assert (criteria.tenant, criteria.queue, criteria.key) == (name, name, name)
    assert criteria.problems == () and criteria.words == ()


def test_a_quote_that_is_not_closed_yet_quotes_nothing() -> None:
    assert Filter.parse('tenant:"acme co').words == ("acme", "co")
    assert Filter.parse('say "a ""quoted"" word"').words == ("say", 'a "quoted" word')


def test_a_blocked_job_and_a_failed_parent_lead_to_the_job_that_is_the_cause(world: World) -> None:
    cause = world.running(concurrency_key="import:acme", max_concurrent=1)
    blocked = world.made(concurrency_key="import:acme", max_concurrent=1)
    page = world.page(f"/jobs/{blocked.id}")
    assert re.search(rf'class="why">[^\n]*<a class="in-text" href="/jobs/{cause.id}">', page)
    failed = world.store.fail(world.running("order"), JobError("JobFailed", f"{cause.id} is failed: <b>", ""))
    page = world.page(f"/jobs/{failed.id}")
    message = re.search(r'<p class="error-message"[^>]*>(.*?)</p>', page)
    assert message is not None
    assert message[1] == f'<a class="in-text" href="/jobs/{cause.id}">{cause.id}</a> is failed: &lt;b&gt;'
    assert f'class="in-text" href="/jobs/{failed.id}"' not in page, "a page does not lead to itself"


def test_a_command_in_a_sentence_is_shown_as_one() -> None:
    text = "Only SELECT is run here, `penstock sql <x>` does more"
    assert sentence(text) == ('Only SELECT is run here, <code class="command">penstock sql &lt;x&gt;</code> does more')
    assert sentence("a `b") == 'a <code class="command">b</code>'


def test_what_is_linked_is_escaped_first() -> None:
    text = '<script> job_mwo1r6yy_5ik3ms"onclick=x job_<b>'
    link = '<a class="in-text" href="/jobs/job_mwo1r6yy_5ik3ms">job_mwo1r6yy_5ik3ms</a>'
    assert linked(text) == f"&lt;script&gt; {link}&#34;onclick=x job_&lt;b&gt;"
