-- +goose Up

-- What maintenance goes by, from the current snapshot's summary and the metadata. Null where the last commit was before they were noted.
ALTER TABLE lake_tables
    ADD COLUMN delete_files bigint,
    ADD COLUMN deleted_rows bigint,
    ADD COLUMN snapshots    bigint,
    ADD COLUMN expirable_at timestamptz; -- of the oldest snapshot that may go

-- What the workspace, databases and tables say of maintenance; what is not there is inherited. The subject is the database or the table, and empty for the workspace.
CREATE TABLE maintenance_policies (
    workspace_id text COLLATE "C" NOT NULL REFERENCES workspaces,
    subject_id   text COLLATE "C" NOT NULL,
    database_id  text COLLATE "C",
    table_id     text COLLATE "C",
    policy       jsonb NOT NULL DEFAULT '{}',
    next_at      timestamptz, -- of a schedule of its own
    sweep_after  text COLLATE "C" NOT NULL DEFAULT '', -- the table at which going through them was left
    PRIMARY KEY (workspace_id, subject_id),
    FOREIGN KEY (workspace_id, database_id) REFERENCES databases ON DELETE CASCADE,
    FOREIGN KEY (workspace_id, table_id) REFERENCES lake_tables ON DELETE CASCADE,
    CHECK (subject_id = COALESCE(database_id, '') || COALESCE(table_id, ''))
);
CREATE INDEX maintenance_policies_due ON maintenance_policies (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX maintenance_policies_database ON maintenance_policies (workspace_id, database_id) WHERE database_id IS NOT NULL;
CREATE INDEX maintenance_policies_table ON maintenance_policies (workspace_id, table_id) WHERE table_id IS NOT NULL;

-- What was done to a table last.
CREATE TABLE maintenance_tables (
    workspace_id      text COLLATE "C" NOT NULL,
    table_id          text COLLATE "C" NOT NULL,
    compacted_at      timestamptz,
    compacted_files   bigint NOT NULL,
    compacted_deletes bigint NOT NULL,
    expired_at        timestamptz,
    cleaned_at        timestamptz,
    cleaned_version   int NOT NULL,
    PRIMARY KEY (workspace_id, table_id),
    FOREIGN KEY (workspace_id, table_id) REFERENCES lake_tables ON DELETE CASCADE
);

-- Each table's maintenance at each time. Names are those of that time, and the table may be gone since.
CREATE TABLE maintenance_runs (
    workspace_id    text COLLATE "C" NOT NULL REFERENCES workspaces,
    id              text COLLATE "C" NOT NULL,
    table_id        text COLLATE "C" NOT NULL,
    database_id     text COLLATE "C" NOT NULL,
    database        text NOT NULL,
    schema          text NOT NULL,
    name            text NOT NULL,
    run_trigger     text NOT NULL CHECK (run_trigger IN ('schedule', 'manual')),
    created_by_kind text NOT NULL,
    created_by_id   text NOT NULL,
    created_by_name text NOT NULL,
    created_at      timestamptz NOT NULL,
    due_at          timestamptz NOT NULL,
    state           text NOT NULL CHECK (state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled', 'skipped')),
    message         text NOT NULL DEFAULT '',
    todo            text[] NOT NULL,
    operations      jsonb NOT NULL DEFAULT '[]',
    statement_id    text COLLATE "C" NOT NULL DEFAULT '', -- that runs now
    warehouse_id    text COLLATE "C" NOT NULL DEFAULT '',
    tries           int NOT NULL DEFAULT 0,
    look_at         timestamptz NOT NULL,
    started_at      timestamptz,
    finished_at     timestamptz,
    PRIMARY KEY (workspace_id, id)
);
-- A table has one run that is not over, whoever wants it maintained.
CREATE UNIQUE INDEX maintenance_runs_open ON maintenance_runs (workspace_id, table_id) WHERE state IN ('queued', 'running');
CREATE INDEX maintenance_runs_queued ON maintenance_runs (workspace_id, look_at) WHERE state = 'queued';
CREATE INDEX maintenance_runs_running ON maintenance_runs (workspace_id) WHERE state = 'running';
CREATE INDEX maintenance_runs_table ON maintenance_runs (workspace_id, table_id, id);
CREATE INDEX maintenance_runs_database ON maintenance_runs (workspace_id, database_id, id);
CREATE INDEX maintenance_runs_over ON maintenance_runs (finished_at) WHERE finished_at IS NOT NULL;

-- +goose StatementBegin
DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['maintenance_policies', 'maintenance_tables', 'maintenance_runs']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY app ON %I TO millpond_app USING (workspace_id = current_workspace()) WITH CHECK (workspace_id = current_workspace())', t);
        EXECUTE format('CREATE POLICY system ON %I TO millpond_system USING (true) WITH CHECK (true)', t);
    END LOOP;
END
$$;
-- +goose StatementEnd
GRANT SELECT, INSERT, UPDATE ON maintenance_policies, maintenance_tables, maintenance_runs TO millpond_app;
GRANT SELECT ON maintenance_policies TO millpond_system;
GRANT SELECT, DELETE ON maintenance_runs TO millpond_system;

-- +goose Down
DROP TABLE maintenance_runs, maintenance_tables, maintenance_policies;
ALTER TABLE lake_tables DROP COLUMN delete_files, DROP COLUMN deleted_rows, DROP COLUMN snapshots, DROP COLUMN expirable_at;
