"""Tables as code: definitions, naming, plan and what a plan costs; all decided without touching a database."""
