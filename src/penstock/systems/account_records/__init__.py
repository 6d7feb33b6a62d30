"""Account records: records of accounts, processed in parallel."""
