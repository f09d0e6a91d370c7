-- +goose Up

-- A workspace without a row, or with a null value, has the default.
ALTER TABLE quotas ALTER COLUMN value TYPE bigint, ALTER COLUMN value DROP NOT NULL;

-- +goose Down
DELETE FROM quotas WHERE value IS NULL OR value > 2147483647;
ALTER TABLE quotas ALTER COLUMN value TYPE integer, ALTER COLUMN value SET NOT NULL;
INSERT INTO quotas (workspace_id, name, value) SELECT w.workspace_id, q.name, 10 FROM workspaces w, unnest(ARRAY['max_running_runs', 'max_endpoints']) AS q (name) ON CONFLICT DO NOTHING;
