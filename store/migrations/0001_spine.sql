-- +goose Up

-- Three roles: the owner (whoever migrates) owns the tables, app runs tenant SQL under the policies below, system does what has no
-- tenant yet. Roles belong to the cluster, tables to the database.
-- +goose StatementBegin
DO $$
BEGIN
    PERFORM pg_advisory_xact_lock(7236401);
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'millpond_app') THEN
        CREATE ROLE millpond_app NOLOGIN NOBYPASSRLS;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'millpond_system') THEN
        CREATE ROLE millpond_system NOLOGIN NOBYPASSRLS;
    END IF;
END
$$;
-- +goose StatementEnd

GRANT USAGE ON SCHEMA public TO millpond_app, millpond_system;

-- The workspace a transaction is confined to; empty outside of one, which matches no row.
-- +goose StatementBegin
CREATE FUNCTION current_workspace() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
    RETURN current_setting('app.workspace', true);
-- +goose StatementEnd

-- Ids compare byte by byte, whatever the database's locale: they sort by the time they were made.

CREATE TABLE workspaces (
    workspace_id text COLLATE "C" PRIMARY KEY,
    name         text NOT NULL UNIQUE,
    created_at   timestamptz NOT NULL,
    sample_due   boolean NOT NULL DEFAULT false -- the sample is still to be made
);

CREATE TABLE users (
    id            text COLLATE "C" PRIMARY KEY,
    email         text NOT NULL UNIQUE,
    name          text NOT NULL,
    password_hash text,
    created_at    timestamptz NOT NULL
);

CREATE TABLE members (
    workspace_id text COLLATE "C" NOT NULL REFERENCES workspaces,
    user_id      text COLLATE "C" NOT NULL REFERENCES users,
    role         text NOT NULL CHECK (role IN ('viewer', 'editor', 'admin')),
    created_at   timestamptz NOT NULL,
    accepted_at  timestamptz, -- by the user: until then the membership opens nothing
    PRIMARY KEY (workspace_id, user_id)
);
CREATE INDEX members_user ON members (user_id);

CREATE TABLE invitations (
    workspace_id text COLLATE "C" NOT NULL REFERENCES workspaces,
    token_hash   bytea NOT NULL UNIQUE,
    email        text,
    role         text NOT NULL CHECK (role IN ('viewer', 'editor', 'admin')),
    expires_at   timestamptz NOT NULL,
    used_at      timestamptz,
    PRIMARY KEY (workspace_id, token_hash)
);

CREATE TABLE sessions (
    workspace_id text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    user_id      text COLLATE "C" NOT NULL,
    secret_hash  bytea NOT NULL UNIQUE,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    ended_at     timestamptz,
    PRIMARY KEY (workspace_id, id),
    FOREIGN KEY (workspace_id, user_id) REFERENCES members ON DELETE CASCADE
);
CREATE INDEX sessions_user ON sessions (workspace_id, user_id);

CREATE TABLE api_keys (
    workspace_id text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    name         text NOT NULL,
    hint         text NOT NULL,
    role         text NOT NULL CHECK (role IN ('viewer', 'editor', 'admin')),
    secret_hash  bytea NOT NULL UNIQUE,
    created_by   text COLLATE "C" NOT NULL,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz,
    PRIMARY KEY (workspace_id, id),
    FOREIGN KEY (workspace_id, created_by) REFERENCES members ON DELETE CASCADE
);
CREATE INDEX api_keys_maker ON api_keys (workspace_id, created_by, id);

CREATE TABLE agents (
    workspace_id     text COLLATE "C" NOT NULL REFERENCES workspaces,
    id               text COLLATE "C" NOT NULL,
    name             text NOT NULL,
    token_hash       bytea NOT NULL UNIQUE,
    version          text NOT NULL DEFAULT '',
    hostname         text NOT NULL DEFAULT '',
    os               text NOT NULL DEFAULT '',
    arch             text NOT NULL DEFAULT '',
    slots            int NOT NULL DEFAULT 0,
    instance         text NOT NULL DEFAULT '', -- the data directory it was last started with
    session          text NOT NULL DEFAULT '',
    replica          text NOT NULL DEFAULT '',
    created_at       timestamptz NOT NULL,
    connected_at     timestamptz,
    last_seen_at     timestamptz,
    lease_expires_at timestamptz,
    PRIMARY KEY (workspace_id, id)
);

CREATE TABLE quotas (
    workspace_id text COLLATE "C" NOT NULL REFERENCES workspaces,
    name         text NOT NULL,
    value        int NOT NULL CHECK (value >= 0),
    PRIMARY KEY (workspace_id, name)
);

CREATE TABLE jobs (
    workspace_id    text COLLATE "C" NOT NULL REFERENCES workspaces,
    id              text COLLATE "C" NOT NULL,
    name            text NOT NULL,
    description     text NOT NULL,
    spec            jsonb NOT NULL,
    spec_size       int GENERATED ALWAYS AS (octet_length(spec::text)) STORED, -- known without reading it
    cron            text,
    time_zone       text,
    paused          boolean NOT NULL DEFAULT false,
    next_at         timestamptz,
    waiting_since   timestamptz,
    missed          int NOT NULL DEFAULT 0,
    last_missed_at  timestamptz,
    sample          boolean NOT NULL DEFAULT false,
    created_by_kind text NOT NULL,
    created_by_id   text NOT NULL,
    created_by_name text NOT NULL,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, id)
);
CREATE INDEX jobs_due ON jobs (LEAST(next_at, waiting_since)) WHERE next_at IS NOT NULL OR waiting_since IS NOT NULL;

-- Files that jobs bring along, once each.
CREATE TABLE files (
    workspace_id text COLLATE "C" NOT NULL REFERENCES workspaces,
    hash         bytea NOT NULL, -- SHA-256
    data         bytea NOT NULL,
    PRIMARY KEY (workspace_id, hash)
);

CREATE TABLE runs (
    workspace_id        text COLLATE "C" NOT NULL REFERENCES workspaces,
    id                  text COLLATE "C" NOT NULL,
    job_id              text COLLATE "C" NOT NULL, -- outlives the job
    job_name            text NOT NULL,
    spec                jsonb NOT NULL,
    spec_size           int GENERATED ALWAYS AS (octet_length(spec::text)) STORED, -- what lists and limits need of the spec, known without reading it
    task_count          int GENERATED ALWAYS AS (COALESCE(jsonb_array_length(spec -> 'tasks'), 0)) STORED,
    max_concurrent_runs int GENERATED ALWAYS AS (COALESCE((spec ->> 'max_concurrent_runs')::int, 0)) STORED,
    parameters          jsonb NOT NULL,
    parameters_size     int GENERATED ALWAYS AS (octet_length(parameters::text)) STORED,
    status              text NOT NULL CHECK (status IN ('pending', 'running', 'success', 'failed', 'cancelled')),
    run_trigger         text NOT NULL,
    started_by_kind     text NOT NULL,
    started_by_id       text NOT NULL,
    started_by_name     text NOT NULL,
    message             text NOT NULL DEFAULT '',
    admitted            boolean NOT NULL,
    created_at          timestamptz NOT NULL,
    started_at          timestamptz,
    finished_at         timestamptz,
    cancel_requested_at timestamptz,
    PRIMARY KEY (workspace_id, id)
);
CREATE INDEX runs_status ON runs (workspace_id, status, id);
CREATE INDEX runs_job ON runs (workspace_id, job_id, id);
CREATE INDEX runs_job_status ON runs (workspace_id, job_id, status, id);
CREATE INDEX runs_finished ON runs (workspace_id, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX runs_held ON runs (id) WHERE status = 'pending' AND NOT admitted;

CREATE TABLE tasks (
    workspace_id text COLLATE "C" NOT NULL,
    run_id       text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL, -- empty for a single command
    position     int NOT NULL,
    status       text NOT NULL CHECK (status IN ('pending', 'queued', 'running', 'success', 'failed', 'cancelled', 'skipped')),
    retry_count  int NOT NULL DEFAULT 0,
    retry_base   int NOT NULL DEFAULT 0,
    attempts     int NOT NULL DEFAULT 0,
    current      text COLLATE "C", -- the attempt that is alive
    message      text NOT NULL DEFAULT '',
    not_before   timestamptz,
    started_at   timestamptz,
    finished_at  timestamptz,
    PRIMARY KEY (workspace_id, run_id, key),
    FOREIGN KEY (workspace_id, run_id) REFERENCES runs ON DELETE CASCADE
);
CREATE INDEX tasks_ready ON tasks (run_id, not_before) WHERE status = 'queued' AND current IS NULL;
CREATE INDEX tasks_retry ON tasks (not_before) WHERE status = 'queued' AND current IS NULL AND not_before IS NOT NULL;

CREATE TABLE attempts (
    workspace_id        text COLLATE "C" NOT NULL,
    id                  text COLLATE "C" NOT NULL,
    run_id              text COLLATE "C" NOT NULL,
    task_key            text COLLATE "C" NOT NULL,
    number              int NOT NULL,
    agent_id            text COLLATE "C" NOT NULL,
    status              text NOT NULL CHECK (status IN ('starting', 'running', 'success', 'failed', 'cancelled', 'lost')),
    exit_code           int,
    signal              text NOT NULL DEFAULT '',
    message             text NOT NULL DEFAULT '',
    held                text NOT NULL DEFAULT '',
    created_at          timestamptz NOT NULL,
    started_at          timestamptz,
    finished_at         timestamptz,
    cancel_requested_at timestamptz,
    log_size            bigint NOT NULL DEFAULT 0,
    log_sealed          boolean NOT NULL DEFAULT false,
    PRIMARY KEY (workspace_id, id),
    UNIQUE (workspace_id, run_id, task_key, number),
    FOREIGN KEY (workspace_id, run_id, task_key) REFERENCES tasks ON DELETE CASCADE,
    FOREIGN KEY (workspace_id, agent_id) REFERENCES agents
);
-- At most one attempt of a task is alive: what fences them, as a fact.
CREATE UNIQUE INDEX attempts_alive ON attempts (workspace_id, run_id, task_key) WHERE status IN ('starting', 'running');
CREATE INDEX attempts_agent ON attempts (workspace_id, agent_id) WHERE status IN ('starting', 'running');
CREATE INDEX attempts_unsealed ON attempts (id) WHERE NOT log_sealed;

-- Logs are bytes at offsets. An attempt's id begins with its time, so the partitions, cut by id, are days; they are dropped whole.
CREATE TABLE log_chunks (
    workspace_id text COLLATE "C" NOT NULL,
    attempt_id   text COLLATE "C" NOT NULL,
    start        bigint NOT NULL,
    stream       smallint NOT NULL,
    first_line   bigint NOT NULL,
    next_line    bigint NOT NULL,
    emitted_at   timestamptz NOT NULL,
    data         bytea NOT NULL,
    PRIMARY KEY (workspace_id, attempt_id, start)
) PARTITION BY RANGE (attempt_id);
ALTER TABLE log_chunks ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE log_segments (
    workspace_id text COLLATE "C" NOT NULL,
    attempt_id   text COLLATE "C" NOT NULL,
    start        bigint NOT NULL,
    stop         bigint NOT NULL,
    first_line   bigint NOT NULL,
    next_line    bigint NOT NULL,
    object_key   text NOT NULL,
    size         bigint NOT NULL,
    PRIMARY KEY (workspace_id, attempt_id, start),
    FOREIGN KEY (workspace_id, attempt_id) REFERENCES attempts ON DELETE CASCADE
);

CREATE TABLE audit_events (
    workspace_id  text COLLATE "C" NOT NULL REFERENCES workspaces,
    id            text COLLATE "C" NOT NULL,
    at            timestamptz NOT NULL DEFAULT now(),
    actor_kind    text NOT NULL,
    actor_id      text NOT NULL,
    actor_name    text NOT NULL,
    action        text NOT NULL,
    resource_type text NOT NULL,
    resource_id   text NOT NULL,
    outcome       text NOT NULL CHECK (outcome IN ('success', 'denied', 'failure')),
    detail        text NOT NULL,
    PRIMARY KEY (workspace_id, id)
);

CREATE TABLE idempotency_keys (
    workspace_id text COLLATE "C" NOT NULL REFERENCES workspaces,
    actor        text NOT NULL,
    key          text NOT NULL,
    hash         bytea NOT NULL,
    resource     text NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, actor, key)
);
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);

-- What belongs to no workspace.

CREATE TABLE signing_keys (
    id         text PRIMARY KEY,
    secret     bytea NOT NULL,
    created_at timestamptz NOT NULL
);

CREATE TABLE replicas (
    id      text PRIMARY KEY,
    url     text NOT NULL,
    seen_at timestamptz NOT NULL
);

-- The fences. Every table of a workspace has the same: row-level security, and one policy for app.
-- +goose StatementBegin
DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['workspaces', 'members', 'invitations', 'sessions', 'api_keys', 'agents', 'quotas', 'jobs', 'files', 'runs', 'tasks',
        'attempts', 'log_chunks', 'log_segments', 'audit_events', 'idempotency_keys']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY app ON %I TO millpond_app USING (workspace_id = current_workspace()) WITH CHECK (workspace_id = current_workspace())', t);
        EXECUTE format('CREATE POLICY system ON %I TO millpond_system USING (true) WITH CHECK (true)', t);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- Users are seen by the workspaces they are members of.
ALTER TABLE users ENABLE ROW LEVEL SECURITY;
CREATE POLICY app ON users TO millpond_app USING (EXISTS (SELECT FROM members m WHERE m.user_id = users.id AND m.workspace_id = current_workspace()));
CREATE POLICY system ON users TO millpond_system USING (true) WITH CHECK (true);

GRANT SELECT, UPDATE (sample_due) ON workspaces TO millpond_app;
GRANT SELECT (id, email, name, created_at) ON users TO millpond_app;
-- A workspace invites; only the user accepts, which is system's to write.
GRANT SELECT, INSERT (workspace_id, user_id, role, created_at), UPDATE (role), DELETE ON members TO millpond_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON sessions, api_keys, jobs, runs, tasks, attempts TO millpond_app;
GRANT SELECT, INSERT, UPDATE ON agents, quotas, idempotency_keys TO millpond_app;
GRANT SELECT, INSERT ON files, log_chunks, log_segments, invitations TO millpond_app;
GRANT UPDATE ON invitations TO millpond_app;
GRANT INSERT ON audit_events TO millpond_app;

GRANT SELECT, INSERT ON workspaces, quotas TO millpond_system;
GRANT SELECT, INSERT, UPDATE ON users, members, invitations TO millpond_system;
GRANT SELECT, INSERT, UPDATE, DELETE ON sessions, replicas, signing_keys TO millpond_system;
GRANT SELECT, UPDATE, DELETE ON api_keys TO millpond_system;
GRANT INSERT ON audit_events TO millpond_system;
GRANT SELECT, INSERT, UPDATE ON agents TO millpond_system;
GRANT SELECT ON jobs, runs, tasks, attempts, log_chunks, log_segments TO millpond_system;
GRANT SELECT, DELETE ON idempotency_keys TO millpond_system;

-- A member who is new to the instance is made by a function: app may not write users otherwise. The user stays locked: who adds or accepts at the
-- same moment waits.
-- +goose StatementBegin
CREATE FUNCTION ensure_user(new_id text, new_email text, new_name text, at timestamptz)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE found_id text;
BEGIN
    INSERT INTO users (id, email, name, created_at) VALUES (new_id, new_email, new_name, at) ON CONFLICT (email) DO NOTHING;
    SELECT id INTO found_id FROM users WHERE email = new_email FOR UPDATE;
    RETURN found_id;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION ensure_user FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ensure_user TO millpond_app;

-- Partitions of logs: system makes and drops them, and can do nothing else to them. A partition holds the attempts of one day; lower and upper are
-- the smallest attempt ids of that day and of the next.
-- +goose StatementBegin
CREATE FUNCTION create_log_partition(day date, lower_id text, upper_id text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(7236402);
    IF to_regclass(format('log_chunks_%s', to_char(day, 'YYYYMMDD'))) IS NULL THEN
        -- Attached, not created in its place: that would wait for every reader, with every writer behind it.
        EXECUTE format('CREATE TABLE log_chunks_%s (LIKE log_chunks INCLUDING STORAGE)', to_char(day, 'YYYYMMDD'));
        EXECUTE format('ALTER TABLE log_chunks_%s ENABLE ROW LEVEL SECURITY', to_char(day, 'YYYYMMDD'));
        EXECUTE format('ALTER TABLE log_chunks ATTACH PARTITION log_chunks_%s FOR VALUES FROM (%L) TO (%L)', to_char(day, 'YYYYMMDD'), lower_id, upper_id);
    END IF;
END
$$;
-- +goose StatementEnd

-- Drops the day's partition when every attempt of that day is sealed to its end; says whether it did. It does not wait long for readers: writers
-- would wait behind it.
-- +goose StatementBegin
CREATE FUNCTION drop_log_partition(day date, lower_id text, upper_id text)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '500ms' AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(7236402);
    IF to_regclass(format('log_chunks_%s', to_char(day, 'YYYYMMDD'))) IS NULL
        OR EXISTS (SELECT FROM attempts WHERE NOT log_sealed AND id COLLATE "C" >= lower_id AND id COLLATE "C" < upper_id) THEN
        RETURN false;
    END IF;
    EXECUTE format('DROP TABLE log_chunks_%s', to_char(day, 'YYYYMMDD'));
    RETURN true;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION create_log_partition, drop_log_partition FROM PUBLIC;
GRANT EXECUTE ON FUNCTION create_log_partition, drop_log_partition TO millpond_system;

-- +goose Down
DROP TABLE replicas, signing_keys, idempotency_keys, audit_events, log_segments, log_chunks, attempts, tasks, runs, files, jobs, quotas, agents,
    api_keys, sessions, invitations, members, users, workspaces;
DROP FUNCTION ensure_user, create_log_partition, drop_log_partition, current_workspace;
