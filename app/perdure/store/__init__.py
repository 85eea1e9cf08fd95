"""Where proposals, grants and the audit trail are kept.

`ProposalStore` is the port; `SqliteStore` keeps it in a file. Nothing else of the app speaks to a database.
"""
