"""RESULTS.md is written from results.json alone; what was not measured again stays as it was."""

from pathlib import Path

import pytest
from bench.options import Options, options_of, parser
from bench.peers import ALL, Peers, how, install
from bench.plots import drawn as plots_drawn
from bench.report import Section, Table
from bench.results import HERE, Results, missing
from bench.servers import find_peers
from bench.throughput import PLANS, Plan


def made(name: str, figure: float, when: str) -> Section:
    table = Table("Rates", ["", "a second"], [["ours", f"{figure}"]])
    return Section(name, name.title(), [table], ["a note"], {"a": figure}, [], f"python -m bench {name}", when)


def test_a_section_measured_again_takes_its_place_and_others_keep_their_date(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.put([made("jobs", 1, "2026-11-01 10:00 UTC"), made("http", 2, "2026-11-01 11:00 UTC")])
    results.save()
    again = Results(tmp_path)
    again.put([made("jobs", 3, "2026-11-02 10:00 UTC")])
    again.save()
    kept = Results(tmp_path)
    assert {name: (one.figures["a"], one.measured[:10]) for name, one in kept.sections.items()} == {
        "http": (2, "2026-11-01"),
        "jobs": (3, "2026-11-02"),
    }
    text = (tmp_path / "RESULTS.md").read_text()
    assert text.index("## Promises") < text.index("## Missing peers") < text.index("## Http") < text.index("## Jobs")
    assert "`python -m bench http`, 2026-11-01 11:00 UTC" in text


def test_what_is_written_is_what_is_read_again(tmp_path: Path) -> None:
    results = Results(tmp_path)
    http = made("http", 1e7 / 3, "2026-11-01 10:00 UTC")
    http.figures = {"GetItem/penstock": 2e7 / 3, "GetItem/moto": 1e6 / 7}
    http.busy, http.seconds = 1 / 3, 10 / 3
    results.put([http])
    results.save()
    assert Results(tmp_path).markdown({"http.svg"}) == (tmp_path / "RESULTS.md").read_text()
    assert plots_drawn(Results(tmp_path).sections)["http.svg"] == (tmp_path / "plots" / "http.svg").read_text()


def test_the_results_that_are_kept_are_the_figures_that_are_kept() -> None:
    results = Results(HERE)
    drawn = {one.name for one in (HERE / "plots").glob("*.svg")}
    assert results.markdown(drawn) == (HERE / "RESULTS.md").read_text()


def test_missing_peers_are_listed_with_how_to_get_each() -> None:
    sections = [Section("http", "", missing=["dynalite"]), Section("jobs", "", missing=["redis", "huey"])]
    sections.append(Section("footprint", "", missing=["dynalite"]))
    assert missing(sections).splitlines()[4:] == [
        "- **dynalite** (http, footprint): `python -m bench.peers DIR --only dynalite`, then `--peers DIR`",
        "- **redis** (jobs): `apt install redis-server`, or your system's package of that name",
        "- **huey** (jobs): `python -m bench.peers DIR --only huey`, then `--peers DIR`",
    ]
    assert "cargo" in how("dynoxide")
    assert "None" in missing([Section("http", "")])


def test_peers_are_found_in_the_folder_and_the_rest_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("DYNOXIDE", "DYNALITE", "MINISTACK", "MOTO", "DYNAMODB_LOCAL", "PEERS", "JOBS_PEERS"):
        monkeypatch.delenv(f"PENSTOCK_BENCH_{name}", raising=False)
    for place in ("dynoxide/bin/dynoxide", "moto/bin/moto_server", "huey/bin/python"):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).touch()
    peers = Peers(folder=tmp_path, commands={"mine": "serve {port}"})
    found, absent = find_peers(Options(peers=peers))
    assert [one.name for one in found] == ["dynoxide", "moto", "mine"]
    assert absent == ["dynalite", "ministack", "dynamodb-local"]
    assert peers.for_jobs("huey") == str(tmp_path / "huey/bin/python")
    assert peers.for_jobs("rq") is None


def test_a_peer_that_does_not_install_is_told_with_its_reason_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, folder = tmp_path / "programs", tmp_path / "peers"
    programs.mkdir()
    (programs / "cargo").write_text("#!/bin/sh\necho no such crate >&2\nexit 101\n")
    (programs / "cargo").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    why = install(ALL["dynoxide"], folder)
    assert why is not None and why.endswith("dynoxide-rs ended with 101: no such crate")
    assert "npm is not on PATH" in (install(ALL["dynalite"], folder) or "")
    assert list(folder.iterdir()) == []


def test_a_plan_is_that_of_the_runs_length_with_what_set_changes() -> None:
    reader = parser("", "")
    assert options_of(reader.parse_args(["--quick"])).plan(PLANS) == PLANS["quick"]
    assert options_of(reader.parse_args(["--large"])).plan(PLANS) == PLANS["full"]
    options = options_of(reader.parse_args(["http", "--set", "rounds=1", "--only", "moto"]))
    assert options.plan(PLANS) == Plan(rounds=1, seconds=PLANS["full"].seconds, partitions=PLANS["full"].partitions)
    assert options.words() == ["--set rounds=1", "--only moto"]


@pytest.mark.parametrize(
    ("words", "told"),
    [(["--set", "wheels=4"], "no such number here"), (["--set", "rounds=x"], "'x' is not a number")],
)
def test_a_change_that_cannot_be_is_named(words: list[str], told: str) -> None:
    with pytest.raises(SystemExit, match=told):
        options_of(parser("", "").parse_args(words)).plan(PLANS)
