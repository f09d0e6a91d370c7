-- +goose Up

-- A table that was dropped without purge keeps its files: its row stays until somebody purges or registers it.
UPDATE lake_tables SET purge_next = NULL WHERE dropped_at IS NOT NULL AND NOT purge AND NOT registered AND kind = 'table';
UPDATE lake_tables SET purge = true WHERE dropped_at IS NOT NULL AND NOT registered AND kind = 'view';

-- A purge removes all files in the directories of write.*.path. For older tables it was not checked
-- that those directories were empty.
UPDATE lake_tables t SET registered = true, purge = false, purge_next = COALESCE(purge_next, purge_after)
WHERE EXISTS (SELECT FROM lake_locations l WHERE l.workspace_id = t.workspace_id AND l.table_id = t.id AND l.property);

-- Directories of staged tables. They held no file when they were staged, so files in them belong to
-- the new table.
CREATE TABLE lake_stages (
    workspace_id text COLLATE "C" NOT NULL REFERENCES workspaces,
    location     text COLLATE "C" NOT NULL,
    staged_at    timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, location)
);
CREATE INDEX lake_stages_age ON lake_stages (staged_at);
ALTER TABLE lake_stages ENABLE ROW LEVEL SECURITY;
CREATE POLICY app ON lake_stages TO millpond_app USING (workspace_id = current_workspace()) WITH CHECK (workspace_id = current_workspace());
CREATE POLICY system ON lake_stages TO millpond_system USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON lake_stages TO millpond_app;
GRANT SELECT, DELETE ON lake_stages TO millpond_system;

-- +goose Down
DROP TABLE lake_stages;
