-- +goose Up

-- Lists of files that commits removed from tables. The files are erased when the list is due. A
-- list is deleted with its table.
CREATE TABLE lake_erasures (
    workspace_id text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    table_id     text COLLATE "C" NOT NULL,
    list         text COLLATE "C" NOT NULL, -- the file with the names
    created_at   timestamptz NOT NULL,
    due_at       timestamptz NOT NULL,
    next_at      timestamptz NOT NULL, -- due_at, or later after a failure
    failures     int NOT NULL DEFAULT 0,
    PRIMARY KEY (workspace_id, id),
    FOREIGN KEY (workspace_id, table_id) REFERENCES lake_tables ON DELETE CASCADE
);
CREATE INDEX lake_erasures_due ON lake_erasures (next_at);
CREATE INDEX lake_erasures_table ON lake_erasures (workspace_id, table_id);

ALTER TABLE lake_erasures ENABLE ROW LEVEL SECURITY;
CREATE POLICY app ON lake_erasures TO millpond_app USING (workspace_id = current_workspace()) WITH CHECK (workspace_id = current_workspace());
CREATE POLICY system ON lake_erasures TO millpond_system USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON lake_erasures TO millpond_app;
GRANT SELECT ON lake_erasures TO millpond_system;

-- The number of snapshots that the last expiry left.
ALTER TABLE maintenance_tables ADD COLUMN expired_snapshots bigint NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE maintenance_tables DROP COLUMN expired_snapshots;
DROP TABLE lake_erasures;
