"""Which names the reference has, on which page. The root's `__all__` and those of the rooms are all here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    """A page of the reference: `names` are `module:name`."""

    file: str
    title: str
    about: str
    names: tuple[str, ...]


PAGES = (
    Page(
        "client.md",
        "Databases, tables, items",
        "The guide: [the client](../client.md), [connecting](../connecting.md), [batches](../batches.md), "
        "[retries](../retries.md), [in process](../in-process.md).",
        (
            "penstock:connect",
            "penstock:Database",
            "penstock.client.tables.table:Table",
            "penstock.client.batches.batches:Batch",
            "penstock.client.reads.pages:Items",
            "penstock:F",
            "penstock:connect_async",
            "penstock:AsyncDatabase",
            "penstock.client.async_database:AsyncTable",
            "penstock:boto3_client",
            "penstock:boto3_resource",
            "penstock.client.transports:Limits",
            "penstock.client.wrappers.retries:RequestRetries",
            "penstock.client.wrappers.pacing:Pacer",
            "penstock.client.wrappers.metering:Meter",
            "penstock.client.wrappers.metering:Metering",
            "penstock.client.wrappers.recording:Recording",
            "penstock.client.wrappers.recording:Replaying",
        ),
    ),
    Page(
        "jobs.md",
        "Jobs",
        "The guide: [your first job](../first-job.md), [finding jobs](../finding-jobs.md), "
        "[the life of a job](../life-of-a-job.md), "
        "[when a worker dies](../when-a-worker-dies.md), "
        "[when the database goes away](../when-the-database-goes-away.md), "
        "[enqueue in a transaction](../enqueue-in-a-transaction.md), [hooks](../hooks.md), "
        "[webhooks](../webhooks.md), [on AWS](../on-aws.md), "
        "[typed payloads and codecs](../typed-payloads.md), [testing](../testing-jobs.md).",
        (
            "penstock:App",
            "penstock.jobs.job_queries:Jobs",
            "penstock.jobs.job_queries:BulkChange",
            "penstock.jobs.async_app:AsyncApp",
            "penstock.jobs.async_app:AsyncJobs",
            "penstock:JobContext",
            "penstock.jobs.context:JobFiles",
            "penstock.jobs.context:AsyncJobFiles",
            "penstock:AsyncJobContext",
            "penstock:Job",
            "penstock.jobs.model.workflow:Child",
            "penstock:Task",
            "penstock.jobs.schedules:Schedules",
            "penstock.jobs.schedules:SavedSchedule",
            "penstock.jobs.schedules:SchedulePage",
            "penstock:RetryPolicy",
            "penstock:Worker",
            "penstock:JobLogFilter",
            "penstock:State",
            "penstock.jobs.layouts.tables:jobs_table",
            "penstock.jobs.iam_policy:policy",
            "penstock.client.tables.transactions:Transaction",
            "penstock.webhooks:verify",
            "penstock.codecs:Codec",
            "penstock.codecs:Compression",
            "penstock.codecs:Encryption",
            "penstock.codecs:new_key",
            "penstock.testing:run_now",
            "penstock.testing:JobApp",
            "penstock.testing:JobClock",
            "penstock.testing:crash_at_every_step",
            "penstock.testing:CrashReport",
        ),
    ),
    Page(
        "tables.md",
        "Tables as code",
        "The guide: [tables](../tables.md), [adding an index](../tables-walkthrough.md).",
        (
            "penstock:Table",
            "penstock:Index",
            "penstock.tables.definitions.definition:Throughput",
            "penstock.tables.definitions.definition:Maximum",
            "penstock.tables.definitions.definition:Naming",
            "penstock.tables.plan.plan:diff",
            "penstock.tables.plan.plan:plan_table",
            "penstock.tables.plan.plan:plan_of",
            "penstock.tables.apply.apply:make",
            "penstock.tables.iam_policy:policy",
            "penstock.tables.migrations:DELETE",
        ),
    ),
    Page(
        "records.md",
        "Records",
        "The guide: [records](../records.md).",
        (
            "penstock:RecordProcessor",
            "penstock.records:Report",
            "penstock.records:Progress",
            "penstock.records:RecordError",
            "penstock.records:FailureGroup",
            "penstock.records:Interrupted",
            "penstock.records:ProcessingStopped",
            "penstock.records:process_pool",
        ),
    ),
    Page(
        "pipelines.md",
        "Pipelines",
        "The guide: [pipelines](../pipelines.md).",
        (
            "penstock.pipelines:Pipeline",
            "penstock.pipelines:StepContext",
            "penstock.pipelines:PipelineFile",
            "penstock.pipelines:PipelineReport",
            "penstock.pipelines:StepReport",
            "penstock.pipelines:lineage",
            "penstock.pipelines:Lineage",
            "penstock.pipelines:Origin",
            "penstock.pipelines:outputs",
            "penstock.pipelines:required_job_id",
            "penstock.pipelines:BadPipeline",
            "penstock.pipelines:ExecutorDied",
            "penstock.pipelines:ItemFailure",
            "penstock.pipelines:ItemsFailed",
            "penstock.pipelines:JobIdRequired",
            "penstock.pipelines:PipelineHeld",
        ),
    ),
    Page(
        "files.md",
        "Files",
        "The guide: [files](../files.md).",
        (
            "penstock.files:open_files",
            "penstock.files:Files",
            "penstock.files:SavedFile",
            "penstock.files:ListedFile",
            "penstock.files:Swept",
            "penstock.files:FileError",
            "penstock.files:BadStoreUrl",
            "penstock.files:BadKey",
            "penstock.files:FileChanged",
            "penstock.files:FileInTheWay",
            "penstock.files:FileMissing",
            "penstock.files:FileTooLarge",
            "penstock.files:StoreMissing",
            "penstock.files:StoreUnreachable",
            "penstock.files:NoSpace",
            "penstock.files:NotAllowed",
        ),
    ),
    Page(
        "errors.md",
        "Errors",
        "All are `penstock.PenstockError`s. DynamoDB's own have DynamoDB's names, in `penstock.errors`; "
        "`error.retryable` says whether to repeat the call.",
        (
            "penstock:PenstockError",
            "penstock:DynamoDBError",
            "penstock:TransportError",
            "penstock:DatabaseLocked",
            "penstock:DatabaseLost",
            "penstock:ConditionFailed",
            "penstock:BatchIncomplete",
            "penstock:TransactionFailed",
            "penstock.client.items.values:InvalidValue",
            "penstock:JobFailed",
            "penstock:JobNotFound",
            "penstock:JobCancelled",
            "penstock:JobRequeued",
            "penstock:JobSuspended",
            "penstock:RetryIn",
            "penstock:WorkflowChanged",
            "penstock:BadTransition",
            "penstock:LeaseLost",
            "penstock:BadJob",
            "penstock:NotJson",
            "penstock.codecs:PayloadLocked",
            "penstock.codecs:PayloadDamaged",
            "penstock.testing:JobNotEnded",
            "penstock.testing:EndedOtherwise",
            "penstock:BadCron",
            "penstock:BadSchedule",
            "penstock:ScheduleNotFound",
            "penstock:BadLease",
            "penstock:BadRetryPolicy",
            "penstock:DefinitionError",
        ),
    ),
)
