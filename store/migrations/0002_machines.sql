-- +goose Up

-- Compute instances and warehouses: two nouns, one life cycle, one agent each.
CREATE TABLE machines (
    workspace_id    text COLLATE "C" NOT NULL REFERENCES workspaces,
    id              text COLLATE "C" NOT NULL,
    kind            text NOT NULL CHECK (kind IN ('compute', 'warehouse')),
    name            text NOT NULL,
    flavor          text NOT NULL,
    provider        text NOT NULL,
    region          text NOT NULL,
    image           text NOT NULL DEFAULT '',
    image_ref       text NOT NULL DEFAULT '', -- pinned at the first start
    auto_stop       text NOT NULL CHECK (auto_stop IN ('30m', '1h', '2h', 'never')),
    slots           int NOT NULL DEFAULT 0,
    write_engine    text NOT NULL DEFAULT '',
    agent_id        text COLLATE "C" NOT NULL,
    host            text NOT NULL DEFAULT '', -- whose server has it, where the provider is the server's own machine
    created_by_kind text NOT NULL,
    created_by_id   text NOT NULL,
    created_by_name text NOT NULL,
    created_at      timestamptz NOT NULL,
    last_used_at    timestamptz,
    desired         text NOT NULL DEFAULT 'stopped' CHECK (desired IN ('stopped', 'running')),
    state           text NOT NULL DEFAULT 'stopped' CHECK (state IN ('stopped', 'starting', 'running', 'stopping', 'failed')),
    message         text NOT NULL DEFAULT '',
    state_since     timestamptz NOT NULL,
    incarnation     int NOT NULL DEFAULT 0,
    restarts        int NOT NULL DEFAULT 0,
    made            boolean NOT NULL DEFAULT false,
    released        boolean NOT NULL DEFAULT true,
    idle_since      timestamptz,
    held_at         timestamptz, -- a person stopped it: what was started before does not start it again
    due_at          timestamptz, -- when the reconciler is to look at it; null at rest
    PRIMARY KEY (workspace_id, id),
    UNIQUE (workspace_id, kind, name),
    UNIQUE (workspace_id, agent_id),
    FOREIGN KEY (workspace_id, agent_id) REFERENCES agents
);
CREATE INDEX machines_due ON machines (due_at) WHERE due_at IS NOT NULL;

-- How much of it was used: one row for each five seconds of an hour, written over in the next.
CREATE TABLE machine_metrics (
    workspace_id text COLLATE "C" NOT NULL,
    machine_id   text COLLATE "C" NOT NULL,
    slot         int NOT NULL,
    at           timestamptz NOT NULL,
    cpu          real NOT NULL,
    cores        real NOT NULL,
    memory       bigint NOT NULL,
    memory_total bigint NOT NULL,
    disk         bigint NOT NULL,
    disk_total   bigint NOT NULL,
    gpus         jsonb NOT NULL DEFAULT '[]',
    PRIMARY KEY (workspace_id, machine_id, slot),
    FOREIGN KEY (workspace_id, machine_id) REFERENCES machines ON DELETE CASCADE
) WITH (fillfactor = 50);

-- Where a workspace's machines come from. Without a row: local.
CREATE TABLE providers (
    workspace_id text COLLATE "C" NOT NULL REFERENCES workspaces,
    kind         text NOT NULL,
    region       text NOT NULL,
    role         text NOT NULL,
    external_id  text NOT NULL,
    updated_at   timestamptz NOT NULL,
    PRIMARY KEY (workspace_id)
);

-- Where a workspace's objects lie. Without a row: the server's own.
CREATE TABLE storages (
    workspace_id text COLLATE "C" NOT NULL REFERENCES workspaces,
    url          text NOT NULL,
    role         text NOT NULL,
    external_id  text NOT NULL,
    updated_at   timestamptz NOT NULL,
    PRIMARY KEY (workspace_id)
);

-- What an hour of a flavor costs, from a moment on. Rows are added, never changed.
CREATE TABLE prices (
    provider       text NOT NULL,
    region         text NOT NULL,
    flavor         text NOT NULL,
    effective_from timestamptz NOT NULL,
    hourly         numeric(18, 6) NOT NULL CHECK (hourly >= 0),
    currency       text NOT NULL,
    PRIMARY KEY (provider, region, flavor, effective_from)
);

-- A machine has an agent of its own; that of the workspace has no machine.
ALTER TABLE agents ADD COLUMN machine_id text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN bootstrap_hash bytea UNIQUE, -- of the single-use token that its next own token is given for
    ADD COLUMN bootstrap_expires_at timestamptz,
    ADD COLUMN engines jsonb NOT NULL DEFAULT '[]';

ALTER TABLE tasks ADD COLUMN machine_id text COLLATE "C" NOT NULL DEFAULT ''; -- that it runs on; empty for the workspace's agent
CREATE INDEX tasks_machine ON tasks (workspace_id, machine_id) WHERE status = 'queued' AND current IS NULL AND machine_id <> '';

ALTER TABLE attempts ADD COLUMN cancel_reason text NOT NULL DEFAULT ''; -- where it is not that of its run

-- +goose StatementBegin
DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['machines', 'machine_metrics', 'providers', 'storages']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY app ON %I TO millpond_app USING (workspace_id = current_workspace()) WITH CHECK (workspace_id = current_workspace())', t);
        EXECUTE format('CREATE POLICY system ON %I TO millpond_system USING (true) WITH CHECK (true)', t);
    END LOOP;
END
$$;
-- +goose StatementEnd

GRANT SELECT, INSERT, UPDATE, DELETE ON machines, machine_metrics TO millpond_app;
GRANT SELECT, INSERT, UPDATE ON providers, storages TO millpond_app;
GRANT SELECT ON prices TO millpond_app;
GRANT SELECT, INSERT, UPDATE (state_since, idle_since, due_at) ON machines TO millpond_system;
GRANT SELECT, INSERT ON prices TO millpond_system;

-- +goose Down
ALTER TABLE attempts DROP COLUMN cancel_reason;
ALTER TABLE tasks DROP COLUMN machine_id;
ALTER TABLE agents DROP COLUMN machine_id, DROP COLUMN bootstrap_hash, DROP COLUMN bootstrap_expires_at, DROP COLUMN engines;
DROP TABLE prices, storages, providers, machine_metrics, machines;
