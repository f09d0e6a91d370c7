-- +goose Up

-- Writers that lost the race for a table, and until when only one of them may commit to it.
CREATE TABLE lake_turns (
    workspace_id text COLLATE "C" NOT NULL,
    table_id     text COLLATE "C" NOT NULL,
    writer       text COLLATE "C" NOT NULL, -- kind and id of the actor
    lost         int NOT NULL,
    lost_at      timestamptz NOT NULL,
    until        timestamptz, -- the end of its reservation; null if it has had no reservation
    PRIMARY KEY (workspace_id, table_id, writer),
    FOREIGN KEY (workspace_id, table_id) REFERENCES lake_tables ON DELETE CASCADE
);
CREATE INDEX lake_turns_age ON lake_turns (lost_at);

ALTER TABLE lake_turns ENABLE ROW LEVEL SECURITY;
CREATE POLICY app ON lake_turns TO millpond_app USING (workspace_id = current_workspace()) WITH CHECK (workspace_id = current_workspace());
CREATE POLICY system ON lake_turns TO millpond_system USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON lake_turns TO millpond_app;
GRANT SELECT, DELETE ON lake_turns TO millpond_system;

-- +goose Down
DROP TABLE lake_turns;
