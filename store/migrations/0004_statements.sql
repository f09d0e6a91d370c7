-- +goose Up

-- SQL statements: what was asked for, how far they are, and small results.
CREATE TABLE statements (
    workspace_id        text COLLATE "C" NOT NULL REFERENCES workspaces,
    id                  text COLLATE "C" NOT NULL,
    warehouse_id        text COLLATE "C" NOT NULL, -- which may be deleted since
    query               text NOT NULL,
    parameters          jsonb NOT NULL DEFAULT '[]',
    database_name       text NOT NULL,
    schema_name         text NOT NULL,
    requested_engine    text NOT NULL DEFAULT '',
    row_limit           bigint NOT NULL DEFAULT 0,
    byte_limit          bigint NOT NULL DEFAULT 0,
    timeout_ms          bigint NOT NULL DEFAULT 0,
    created_by_kind     text NOT NULL,
    created_by_id       text NOT NULL,
    created_by_name     text NOT NULL,
    role                text NOT NULL,
    run_id              text COLLATE "C" NOT NULL DEFAULT '',
    task_key            text NOT NULL DEFAULT '',
    created_at          timestamptz NOT NULL,
    state               text NOT NULL CHECK (state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
    message             text NOT NULL DEFAULT '',
    progress            real NOT NULL DEFAULT -1,
    kind                text NOT NULL DEFAULT '',
    write               boolean NOT NULL DEFAULT false,
    engine              text NOT NULL DEFAULT '',
    routing_reason      text NOT NULL DEFAULT '',
    fault               text NOT NULL DEFAULT '',
    failure             text NOT NULL DEFAULT '',
    failure_line        int NOT NULL DEFAULT 0,
    failure_column      int NOT NULL DEFAULT 0,
    schema_message      bytea, -- of the result, in Arrow IPC
    rows                bigint NOT NULL DEFAULT 0,
    bytes               bigint NOT NULL DEFAULT 0,
    scanned             bigint NOT NULL DEFAULT 0,
    truncated           boolean NOT NULL DEFAULT false,
    chunks              jsonb NOT NULL DEFAULT '[]',
    result              bytea, -- where it is small: the one chunk
    result_until        timestamptz,
    started_at          timestamptz,
    finished_at         timestamptz,
    cancel_requested_at timestamptz,
    replica             text NOT NULL,
    PRIMARY KEY (workspace_id, id)
);
CREATE INDEX statements_live ON statements (workspace_id, warehouse_id) WHERE state IN ('queued', 'running');
CREATE INDEX statements_warehouse ON statements (workspace_id, warehouse_id, id);
CREATE INDEX statements_run ON statements (workspace_id, run_id, id) WHERE run_id <> '';
CREATE UNIQUE INDEX statements_id ON statements (id);
CREATE INDEX statements_replica ON statements (replica) WHERE state IN ('queued', 'running');
CREATE INDEX statements_expired ON statements (result_until) WHERE chunks <> '[]';

ALTER TABLE statements ENABLE ROW LEVEL SECURITY;
CREATE POLICY app ON statements TO millpond_app USING (workspace_id = current_workspace()) WITH CHECK (workspace_id = current_workspace());
CREATE POLICY system ON statements TO millpond_system USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE ON statements TO millpond_app;
GRANT SELECT ON statements TO millpond_system;

-- +goose Down
DROP TABLE statements;
