"""Codecs: payloads are compressed and encrypted, say by what, and stay readable when keys rotate (codecs.py)."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import penstock
from penstock.cli.main import cli
from penstock.codecs import Codec, Compression, Encryption, PayloadDamaged, PayloadLocked, new_key
from penstock.jobs.store.store import JobStore
from penstock.testing import JobApp

pytest.importorskip("cryptography")
OLD, NEW = new_key(), new_key()
WORD = "classified"


def app_with(codec: Codec | list[Codec] | None, url: Any = "http://127.0.0.1:1") -> penstock.App:
    app = penstock.App(url, codec=codec)

    @app.task()
    def echo(ctx: penstock.JobContext, text: str) -> str:
        ctx.checkpoint("kept", text)
        return str(ctx.step("doubled", lambda: text + text))[: len(text)]

    return app


def stored_texts(jobs: JobApp) -> str:
    """Every item of every table, as text."""
    return str(jobs.db.execute("Scan", {"TableName": jobs.store.layout.table})["Items"])


def test_nothing_that_a_job_stores_can_be_read_without_the_key() -> None:
    app = app_with(Encryption({"2026": NEW}))
    with JobApp(app) as jobs:
        echo = app.tasks["echo"]
        for text in (WORD, WORD * 2_000, WORD * 50_000):  # in its record, in one of its own, in a file
            job = echo.enqueue(text=text)
            jobs.run_until_idle()
            assert echo.result(job) == text
        assert WORD not in stored_texts(jobs)
        assert "~args;aes-gcm:2026~" in stored_texts(jobs)
        assert "~checkpoint#kept;aes-gcm:2026~" in stored_texts(jobs)
        in_file = app.get(job.id).args.file
        assert in_file is not None
        assert jobs.files.read(in_file.key).startswith(b"~args;aes-gcm:2026~")


def test_compression_and_encryption_are_chained_and_short_texts_are_not_compressed() -> None:
    app = app_with([Compression(), Encryption({"2026": NEW})])
    with JobApp(app) as jobs:
        short, long = (app.tasks["echo"].enqueue(text=WORD * times) for times in (1, 500))
        assert (short.args.text or "").startswith("~args;aes-gcm:2026~")
        assert (long.args.text or "").startswith("~args;zlib,aes-gcm:2026~")
        assert len(long.args.text or "") < 500
        jobs.run_until_idle()
        assert app.result(long.id) == WORD * 500


def test_the_new_key_writes_and_the_old_one_still_reads(tmp_path: Path) -> None:
    before = app_with(Encryption({"old": OLD}), tmp_path / "x.db")
    job = before.tasks["echo"].enqueue(text=WORD)
    plain = app_with(None, tmp_path / "x.db").tasks["echo"].enqueue(text="plain")
    after = app_with([Compression(), Encryption({"new": NEW, "old": OLD})], tmp_path / "x.db")
    penstock.Worker(after, burst=True, concurrency=1).run()
    assert (after.result(job.id), after.result(plain.id)) == (WORD, "plain")
    assert (after.get(job.id).result or job.args).text.startswith("~result;aes-gcm:new~")  # type: ignore[union-attr]
    before.close()
    after.close()


def test_a_worker_without_the_key_leaves_the_job_to_others_and_uses_up_no_retry() -> None:
    writer = app_with(Encryption({"2026": NEW}))
    reader = app_with(None)
    with JobApp(writer) as jobs, reader.moved_to(jobs.db, jobs.files, jobs.clock):
        job = writer.tasks["echo"].enqueue(text=WORD)
        blind = JobApp.__new__(JobApp)
        blind.__dict__.update(jobs.__dict__, app=reader)
        [requeued] = blind.run_until_idle()
        assert (requeued.state, requeued.failures, requeued.requeues) == (penstock.State.QUEUED, 0, 1)
        assert requeued.run_at == jobs.clock.now() + 15
        assert "encoded by aes-gcm with the key '2026'" in requeued.events[-1].detail
        jobs.run_until_idle(time_travel=True)
        assert writer.result(job.id) == WORD


def test_a_job_whose_key_never_comes_fails_in_the_end() -> None:
    writer = app_with(Encryption({"2026": NEW}))
    reader = app_with(None)
    with JobApp(writer) as jobs, reader.moved_to(jobs.db, jobs.files, jobs.clock):
        job = writer.tasks["echo"].enqueue(text=WORD)
        blind = JobApp.__new__(JobApp)
        blind.__dict__.update(jobs.__dict__, app=reader)
        began = jobs.clock.now()
        blind.run_until_idle(time_travel=True)
        ended = writer.get(job.id)
        assert (ended.state, ended.requeues) == (penstock.State.FAILED, 100)
        assert ended.error is not None and ended.error.kind == "PayloadLocked"
        assert jobs.clock.now() - began > 3 * 24 * 3600


def test_what_belongs_to_another_job_or_another_place_is_not_read() -> None:
    app = app_with(Encryption({"2026": NEW}))
    with JobApp(app) as jobs:
        one, other = (app.tasks["echo"].enqueue(text=text) for text in (WORD, "other"))
        moved = replace(one, args=other.args)
        with pytest.raises(PayloadDamaged, match="belongs to another job"):
            jobs.store.load(moved, moved.args)
        with pytest.raises(PayloadDamaged, match="holds what was stored as args"):
            jobs.store.load(one, one.args, "checkpoint#kept")
        renamed = replace(one, result=replace(one.args, text=(one.args.text or "").replace("args", "result", 1)))
        with pytest.raises(PayloadDamaged, match="it was changed"):
            jobs.store.load(renamed, renamed.result)


def test_an_idempotency_key_compares_what_was_meant() -> None:
    app = app_with(Encryption({"2026": NEW}))
    with JobApp(app):
        echo = app.tasks["echo"].options(idempotency_key="k")
        first = echo.enqueue(text=WORD)
        assert echo.enqueue(text=WORD).id == first.id
        with pytest.raises(penstock.BadJob, match="other arguments"):
            echo.enqueue(text="another")
        many = app.tasks["echo"].enqueue_many([{"text": WORD}, {"text": WORD}])
        assert all((job.args.text or "").startswith("~args;aes-gcm") for job in many)


def test_a_command_without_the_key_says_so_and_one_without_the_codec_reads_what_is_compressed(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    locked = app_with(Encryption({"2026": NEW}), path).tasks["echo"].enqueue(text=WORD)
    packed = app_with(Compression(), path).tasks["echo"].enqueue(text=WORD * 300)
    shown = CliRunner().invoke(cli, ["jobs", "show", locked.id, "--db", str(path)])
    assert shown.exit_code == 0
    assert "(args of" in shown.output and "encoded by aes-gcm with the key '2026'" in shown.output
    as_json = CliRunner().invoke(cli, ["jobs", "show", locked.id, "--db", str(path), "--json"])
    assert '"unread":["args of' in as_json.output.replace(": [", ":[")
    assert WORD in CliRunner().invoke(cli, ["jobs", "show", packed.id, "--db", str(path)]).output


def test_a_short_text_does_not_become_all_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = Compression().encode(b"x" * 100_000, b"")
    assert packed is not None
    monkeypatch.setattr("penstock.codecs._LARGEST_BYTES", 10_000)
    with pytest.raises(ValueError, match="has more than 10,000 bytes"):
        Compression().decode(packed, "", b"")


def test_a_codec_of_ones_own() -> None:
    class Reversed:
        name, key_id = "reversed", ""

        def encode(self, data: bytes, context: bytes) -> bytes | None:
            return data[::-1]

        def decode(self, data: bytes, key_id: str, context: bytes) -> bytes:
            return data[::-1]

    app = app_with(Reversed())
    with JobApp(app) as jobs:
        job = app.tasks["echo"].enqueue(text=WORD)
        assert jobs.run(app.tasks["echo"], text=WORD) == WORD
        plain = JobStore(jobs.db, jobs.store.layout)
        with pytest.raises(PayloadLocked, match="encoded by reversed, which this program does not have"):
            plain.load(job, job.args)


def test_keys_and_codecs_are_checked_early(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(penstock.PenstockError, match="needs a key"):
        Encryption({})
    with pytest.raises(penstock.PenstockError, match="is no text of") as caught:
        Encryption({"a": "hunter2"})
    assert "hunter2" not in str(caught.value)
    with pytest.raises(penstock.PenstockError, match="The id of a key"):
        Encryption({"a~b": NEW})
    with pytest.raises(penstock.PenstockError, match="is no codec"):
        penstock.App(":memory:", codec="zlib")  # type: ignore[arg-type]
    assert NEW not in repr(Encryption({"2026": NEW}))
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(ImportError, match=r"pip install 'penstock\[crypto\]'"):
        Encryption({"2026": NEW})
