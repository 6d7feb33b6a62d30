"""The promises themselves, room by room."""

from __future__ import annotations

from bench.promises import (
    Kept,
    Promise,
    as_where_huey_does,
    beside_fastest,
    beside_least,
    least,
    most,
    one_digit,
    percent,
    ratio,
    value,
    whole,
)
from bench.report import times

FLAT = 1.25
"""What “the same” and “flat” allow: a quarter more."""
COLD_STARTS = {"import penstock": 1.5, "penstock --help": 4.0, "penstock jobs list": 12.0, "server ready": 12.0}
LONG_OPERATIONS = (
    "CreateBackup",
    "RestoreTableFromBackup",
    "RestoreTableToPointInTime",
    "DeleteTable",
    "DeleteBackup",
    "UpdateTable that deletes an index",
    "DeleteTable with recovery on",
    "another process holds the write lock",
)
"""As `stalls` names what runs beside the calls that it times."""
ENGINE = (
    Promise("Engine", "GetItem over HTTP beside the fastest peer", "http", beside_fastest("GetItem"), "≥", 2, times),
    Promise("Engine", "PutItem over HTTP beside the fastest peer", "http", beside_fastest("PutItem"), "≥", 1.5, times),
    Promise(
        "Engine", "Query of 100 over HTTP beside the fastest peer", "http", beside_fastest("Query of 100"),
        "≥", 3, times,
    ),
    Promise(
        "Engine", "BatchWriteItem of 25 faster than every peer", "http", beside_fastest("BatchWriteItem of 25"),
        ">", 1, times,
    ),
    Promise(
        "Engine", "PutItem beside Dynoxide where both sync every commit", "synced",
        ratio("PutItem/penstock", "PutItem/dynoxide"), "≥", 3, times,
    ),
    *(
        Promise(
            "Engine", f"{part} of {call} over HTTP at a steady rate, in terms of the best peer's", "tail",
            beside_least(f"{call} {part}"), "≤", 1, times,
        )
        for call in ("GetItem", "PutItem")
        for part in ("p99", "p99.9")
    ),
    Promise(
        "Engine", '`execute("GetItem")`, CPU', "inprocess", value("GetItem/execute/cpu"), "≤", 30, one_digit("µs")
    ),
    Promise(
        "Engine", '`execute("PutItem")`, CPU', "inprocess", value("PutItem/execute/cpu"), "≤", 60, one_digit("µs")
    ),
    Promise(
        "Engine", "boto3 embedded beside boto3 to Dynoxide, a call", "inprocess",
        least(
            ratio("GetItem/boto3-http/wall", "GetItem/boto3-embedded/wall"),
            ratio("PutItem/boto3-http/wall", "PutItem/boto3-embedded/wall"),
        ), "≥", 3, times,
    ),
    Promise(
        "Engine", "`execute()` beside boto3 to Dynoxide, a call", "inprocess",
        least(
            ratio("GetItem/boto3-http/wall", "GetItem/execute/wall"),
            ratio("PutItem/boto3-http/wall", "PutItem/execute/wall"),
        ), "≥", 15, times,
    ),
    *(
        Promise(
            "Engine", f"{call} at 10⁶ items in terms of 10³, wall and CPU", "growth",
            most(*(ratio(f"{call}/1000000/{kind}", f"{call}/1000/{kind}") for kind in ("wall", "cpu"))),
            "≤", 1.5, times,
        )
        for call in ("GetItem", "PutItem", "Query of 25")
    ),
    Promise(
        "Engine", "Server's memory with a 2 GB file", "footprint", value("large/highest", 1e-6), "<", 120, whole("MB")
    ),
    *(
        Promise(
            "Engine", f"Cold start of {name}, in terms of `python3 -c pass`", "coldstart", value(f"{name}/ratio"),
            "≤", asked, times,
        )
        for name, asked in COLD_STARTS.items()
    ),
    Promise(
        "Engine", "Ready after exec, new file and 2 GB file", "footprint",
        most(value("start/penstock", 1e3), value("large/start", 1e3)), "≤", 400, whole("ms"),
    ),
    *(
        Promise(
            "Engine", f"p99 of GetItem in terms of an idle server's, during: {name}", "stalls",
            ratio(f"GetItem/{name}/p99", f"idle server/{name}/p99"), "≤", 10, times,
        )
        for name in LONG_OPERATIONS
    ),
    Promise(
        "Engine", "No GetItem waits longer for a long operation on another table", "stalls",
        most(*(value(f"GetItem/{name}/longest") for name in LONG_OPERATIONS)), "≤", 100, whole("ms"),
    ),
    Promise(
        "Engine", "Nearest 10 of 10,000 × 384 vectors over HTTP", "vectors", value("penstock/10000/search"),
        "≤", 10, one_digit("ms"),
    ),
    Promise(
        "Engine", "Nearest 10 of 100,000 × 384 vectors over HTTP", "vectors", value("penstock/100000/search"),
        "≤", 60, one_digit("ms"),
    ),
    Promise(
        "Engine", "Vectors of 384 loaded a second, beside the 277 of Dynoxide", "vectors",
        value("penstock/10000/load"), "≥", 2770, whole(""),
    ),
    Promise(
        "Engine", "Tests passed of the public conformance suite's 601", "conformance",
        least(value("passed/penstock, file"), value("passed/penstock, memory")), "≥", 597, whole(),
    ),
)  # fmt: skip

CALLS = ("GetItem", "PutItem", "BatchWriteItem", "Query")

CLIENT = (
    *(
        Promise(
            "Client", f"{title}: client CPU, Table's, in terms of boto3's", "clients",
            ratio(f"{call}/penstock-table/cpu", f"{call}/boto3/cpu"), "≤", 1 / 6, times,
        )
        for call, title in (("GetItem", "GetItem"), ("PutItem", "PutItem"), ("BatchWriteItem", "25-item batch"))
    ),
    *(
        Promise(
            "Client", f"{call}: client CPU, Table's, in terms of {peer}'s", "clients",
            ratio(f"{call}/penstock-table/cpu", f"{call}/{peer}/cpu"), "<", 1, times,
        )
        for call in ("GetItem", "PutItem")
        for peer in ("pydynox", "aiodynamo")
    ),
    Promise(
        "Client", "Typed items: client CPU of the four calls, in terms of Table's", "typed",
        most(*(ratio(f"{call}/penstock-typed/cpu", f"{call}/penstock-table/cpu") for call in CALLS)), "≤", 1.5, times,
    ),
    *(
        Promise(
            "Client", f"Typed items: client CPU of the four calls, in terms of {peer}'s", "typed",
            most(*(ratio(f"{call}/penstock-typed/cpu", f"{call}/{peer}/cpu") for call in CALLS)), "<", 1, times,
        )
        for peer in ("pydynox", "pynamodb")
    ),
    Promise(
        "Client", "250-item Query no slower than pydynox's, wall, Table's", "clients",
        ratio("Query/penstock-table/wall", "Query/pydynox/wall"), "≤", 1, times,
    ),
    *(
        Promise(
            "Client", f"100,000 items of 1 KB loaded {how} beside boto3's `batch_writer`, {place}", "load",
            ratio(f"{place}/{subject}", f"{place}/boto3"), "≥", asked, times,
        )
        for how, subject, asked in (("over HTTP", "http", 4), ("in process", "process", 15))
        for place in ("disk", "files in memory")
    ),
    Promise(
        "Client", "Memory of a parallel scan of 10⁶ items", "scans",
        most(*(
            value(f"{place}/{way}/1000000")
            for place in ("over HTTP", "in process, on the file")
            for way in ("parallel_scan", "parallel_scan, asyncio")
        )), "<", 200, whole("MB"),
    ),
)  # fmt: skip

TABLES = (
    Promise("Tables", "13 tables planned, applied and verified", "tables", value("seconds"), "<", 2, one_digit("s")),
    Promise(
        "Tables", "Rounds of describes of a plan of an unchanged fleet", "tables", value("describes"), "≤", 1, whole()
    ),
    Promise(
        "Tables", "Indexes on six tables, in terms of the slowest table's builds", "tables",
        ratio("indexes/seconds", "indexes/slowest"), "≤", FLAT, times,
    ),
    Promise(
        "Tables", "Rekey of 200,000 items beside a writer", "rekey", value("rate/no index/200000"), "≥", 10_000,
        whole("items/s"),
    ),
    Promise(
        "Tables", "Items lost, old or resurrected by a rekey", "rekey",
        most(value("lost/no index/200000"), value("lost/a global index/200000")), "=", 0, whole(),
    ),
    Promise(
        "Tables", "Items lost, old or back again after a migration beside a writer", "migrations", value("wrong"),
        "=", 0, whole(),
    ),
)  # fmt: skip

JOBS = (
    Promise(
        "Jobs", "No-op jobs executed a second (1,500 where Huey executes 3,100)", "jobs",
        value("executed/penstock"), "≥", as_where_huey_does(1_500), whole("/s"),
    ),
    Promise(
        "Jobs", "Jobs enqueued a second, by one call (3,000 where Huey executes 3,100)", "jobs",
        value("together/penstock"), "≥", as_where_huey_does(3_000), whole("/s"),
    ),
    Promise(
        "Jobs", "Jobs enqueued one by one, beside Dramatiq", "jobs", ratio("enqueued/penstock", "enqueued/dramatiq"),
        "≥", 1, times,
    ),
    Promise(
        "Jobs", "Executed beside Celery, the faster of its pools", "jobs",
        least(
            ratio("executed/penstock", "executed/celery-prefork"), ratio("executed/penstock", "executed/celery-threads")
        ), "≥", 2, times,
    ),
    Promise(
        "Jobs", "Executed beside Procrastinate", "jobs", ratio("executed/penstock", "executed/procrastinate"),
        "≥", 4, times,
    ),
    Promise("Jobs", "Executed beside DBOS", "jobs", ratio("executed/penstock", "executed/dbos"), "≥", 4, times),
    Promise(
        "Jobs", "Worker's CPU a job", "jobs", value("worker_cpu/penstock", 1e3), "≤", 0.22, lambda ms: f"{ms:.2f} ms"
    ),
    Promise(
        "Jobs", "Executed beside Huey, where both sync every commit", "jobs",
        ratio("executed/penstock-synced", "executed/huey-synced"), "≥", 1.5, times,
    ),
    Promise(
        "Jobs", "Executed beside Huey, where neither does", "jobs", ratio("executed/penstock", "executed/huey"),
        "≥", 1, times,
    ),
    Promise(
        "Jobs", "After SIGKILL with a 5 s lease, resumed within", "jobs", value("resumed/penstock"), "≤", 6,
        one_digit("s"),
    ),
    Promise(
        "Jobs", "… at the step that was not checkpointed", "jobs", value("resumed at/penstock"), "=", 2, whole()
    ),
    Promise("Jobs", "… completions", "jobs", value("completions/penstock"), "=", 1, whole()),
    Promise(
        "Jobs", "After SIGKILL beside another worker of the machine, default lease, resumed within", "takeover",
        most(value("file/worst"), value("server/worst")), "<", 1, lambda seconds: f"{seconds:.2f} s",
    ),
    Promise(
        "Jobs", "Two and four processes beside one, short jobs on one file", "processes",
        least(*(ratio(f"file/nothing/{number}/rate", "file/nothing/1/rate") for number in (2, 4))), "≥", 1, times,
    ),
    *(
        Promise(
            "Jobs", f"… CPU a job, {name}", "processes",
            ratio(f"file/nothing/{number}/cpu", "file/nothing/1/cpu"), "≤", 1.3, times,
        )
        for name, number in (("two", 2), ("four", 4))
    ),
    Promise(
        "Jobs", "Two processes beside one, jobs that compute", "processes",
        ratio("file/compute/2/rate", "file/compute/1/rate"), "≥", 1.8, times,
    ),
    Promise(
        "Jobs", "A job of another process starts, median, at a file and a server", "wakeup",
        most(value("file/idle/median"), value("server/idle/median")), "<", 10, one_digit("ms"),
    ),
    Promise(
        "Jobs", "… at worst, also beside 1,000 other writes a second", "wakeup",
        most(
            *(value(f"file/{beside}/worst") for beside in ("idle", "beside writes")),
            *(value(f"server/{beside}/worst") for beside in ("idle", "beside writes")),
        ),
        "<", 50, one_digit("ms"),
    ),
    Promise(
        "Jobs", "… the idle worker's CPU, in % of a core", "wakeup",
        most(value("file/idle/cpu"), value("server/idle/cpu")), "<", 1, lambda share: f"{share:.2f} %",
    ),
    Promise(
        "Jobs", "… beside 1,000 other writes a second", "wakeup", value("file/beside writes/cpu"),
        "<", 5, lambda share: f"{share:.2f} %",
    ),
    Promise(
        "Jobs", "A claim beside 100,000 sleeping jobs, by one beside none", "sleepers", value("ratio"), "<", 1.2, times,
    ),
    Promise(
        "Jobs", "10,000 jobs that sleep until the same second, until all have ended", "sleepers", value("timers"),
        "<", 10, one_digit("s"),
    ),
    Promise(
        "Jobs", "Faults after 200 random kills over 2,000 jobs", "kills", value("faults/200 kills of 2000 jobs"),
        "=", 0, whole(),
    ),
    Promise(
        "Jobs", "A claim beside 10⁶ finished jobs in terms of 10²", "claims",
        ratio("Claim and end a job/1000000", "Claim and end a job/100"), "≤", FLAT, times,
    ),
    Promise(
        "Jobs", "A job's history beside 10⁶ finished jobs in terms of 10²", "claims",
        ratio("Read a job's history/1000000", "Read a job's history/100"), "≤", FLAT, times,
    ),
)  # fmt: skip

RECORDS = (
    *(
        Promise(
            "Records and files", f"Efficiency of 8 threads, {how}", "records", value(f"efficiency/{how}"),
            "≥", 0.9, percent,
        )
        for how in ("whole table", "by an index")
    ),
    *(
        Promise(
            "Records and files", f"Leasing, marking and metrics a record, {how}", "records",
            value(f"overhead/{how}/8"), "≤", 250, whole("µs CPU"),
        )
        for how in ("whole table", "by an index")
    ),
    Promise(
        "Records and files", "Pool beside chunks that wait for their slowest", "records",
        ratio("seconds/chunks", "seconds/pool"), "≥", 2, times,
    ),
    Promise(
        "Records and files", "Two processes beside one, computing (three quarters of two cores)", "records",
        ratio("rate/computing/2", "rate/computing/1"), "≥", 1.5, times,
    ),
    Promise(
        "Records and files", "Memory of 10⁶ records in terms of 10⁴", "memory", ratio("bytes/1000000", "bytes/10000"),
        "≤", FLAT, times,
    ),
    *(
        Promise(
            "Records and files", f"Memory of a 1 GB file saved and read, {kind}", "files",
            value(f"peak/{kind}/1000", 1e-6), "<", 64, whole("MB"),
        )
        for kind in ("folder", "S3 (moto server)")
    ),
)  # fmt: skip

SYSTEMS = (
    Promise("Systems", "`penstock demo`, the first time", "demo", value("seconds/first"), "<", 100, whole("s")),
    Promise("Systems", "`penstock demo`, after that", "demo", value("seconds/second"), "<", 60, whole("s")),
    Promise(
        "Systems", "Read units of a job, safe layout, at 10⁶ records in terms of 10³", "excel",
        ratio("units/safe/1000000", "units/safe/1000"), "≤", 1, times,
    ),
)  # fmt: skip

DASHBOARD = (
    Promise(
        "Dashboard", "First page with 10⁵ jobs, server time", "dashboard", value("ms/read now/100000"), "<", 50,
        one_digit("ms"),
    ),
    Promise(
        "Dashboard", "… in terms of the same page with 10²", "dashboard",
        ratio("ms/read now/100000", "ms/read now/100"), "≤", 2, times,
    ),
    Promise(
        "Dashboard", "Polls of the database a second by 200 open pages", "dashboard", value("polls/200"), "≤", 1,
        lambda polls: f"{polls:.2f}",
    ),
    Promise(
        "Dashboard", "A page with its assets", "dashboard", most(value("kilobytes//"), value("kilobytes//jobs")),
        "<", 200, whole("KB"),
    ),
)  # fmt: skip

SOURCE = tuple(
    Promise(
        "Source", f"Hops between files on the walk `{name}`, in terms of those when it was rearranged", "walks",
        ratio(f"{name}/hops", f"{name}/then"), "≤", 1.1, times,
    )
    for name in ("put-item", "enqueue", "work", "apply")
)  # fmt: skip

PROMISES: tuple[Promise, ...] = (*ENGINE, *CLIENT, *TABLES, *JOBS, *RECORDS, *SYSTEMS, *DASHBOARD, *SOURCE)

KEPT_BY_TESTS = (
    Kept("Engine", "A plain GetItem runs one SQL statement and decodes no item", ("engine/test_work_counts.py",)),
    Kept("Engine", "Nothing acknowledged is lost in a hundred kills of a writer", ("engine/test_crash_writes.py",)),
    Kept(
        "Client",
        "10,000 writes through faults leave exactly the items expected",
        ("client/wrappers/test_faults_exactly.py",),
    ),
    Kept("Jobs", "A frozen worker's writes are refused when it wakes up", ("jobs/test_fault_lab.py",)),
    Kept("Jobs", "A job with its history is one Query, whatever the table's size", ("jobs/store/test_job_lists.py",)),
    Kept("Records and files", "No finished step of a killed pipeline runs twice",
         ("pipelines/test_pipeline_killed.py",)),
)  # fmt: skip
