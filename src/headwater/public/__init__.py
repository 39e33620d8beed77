"""What has never seen a record or a key: schemas, plans, budgets, what was measured, models, releases."""
