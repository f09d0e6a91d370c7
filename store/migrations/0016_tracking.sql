-- +goose Up

-- Experiments are numbered within a workspace; 0 is Default.
CREATE TABLE experiments (
    workspace_id      text COLLATE "C" NOT NULL REFERENCES workspaces,
    number            bigint NOT NULL,
    name              text NOT NULL,
    artifact_location text NOT NULL DEFAULT '',
    created_by_kind   text NOT NULL,
    created_by_id     text NOT NULL,
    created_by_name   text NOT NULL,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    deleted_at        timestamptz,
    PRIMARY KEY (workspace_id, number),
    UNIQUE (workspace_id, name)
);
CREATE INDEX experiments_created ON experiments (workspace_id, created_at, number);
CREATE INDEX experiments_deleted ON experiments (deleted_at) WHERE deleted_at IS NOT NULL;

-- The last number that an experiment of the workspace had. Numbers are not used again.
CREATE TABLE experiment_numbers (
    workspace_id text COLLATE "C" NOT NULL REFERENCES workspaces,
    last         bigint NOT NULL,
    PRIMARY KEY (workspace_id)
);

CREATE TABLE experiment_tags (
    workspace_id text COLLATE "C" NOT NULL,
    experiment   bigint NOT NULL,
    key          text COLLATE "C" NOT NULL,
    value        text NOT NULL,
    PRIMARY KEY (workspace_id, experiment, key),
    FOREIGN KEY (workspace_id, experiment) REFERENCES experiments ON DELETE CASCADE
);

-- A run's number orders its points' partitions. It counts for all workspaces and is never shown.
CREATE TABLE tracking_runs (
    workspace_id    text COLLATE "C" NOT NULL,
    id              text COLLATE "C" NOT NULL,
    number          bigint GENERATED ALWAYS AS IDENTITY,
    experiment      bigint NOT NULL,
    name            text NOT NULL,
    state           text NOT NULL CHECK (state IN ('scheduled', 'running', 'finished', 'failed', 'killed')),
    user_name       text NOT NULL,
    created_by_kind text NOT NULL,
    created_by_id   text NOT NULL,
    created_by_name text NOT NULL,
    job_run_id      text COLLATE "C" NOT NULL DEFAULT '', -- of the task that made it; outlives the job's run
    task_key        text NOT NULL DEFAULT '',
    attempt_id      text COLLATE "C" NOT NULL DEFAULT '',
    created_at      timestamptz NOT NULL,
    started_at      timestamptz NOT NULL,
    finished_at     timestamptz,
    deleted_at      timestamptz,
    changed         xid8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (workspace_id, id),
    UNIQUE (workspace_id, number),
    FOREIGN KEY (workspace_id, experiment) REFERENCES experiments
);
CREATE UNIQUE INDEX tracking_runs_number ON tracking_runs (number);
CREATE INDEX tracking_runs_started ON tracking_runs (workspace_id, experiment, started_at DESC, id);
CREATE INDEX tracking_runs_changed ON tracking_runs (workspace_id, changed, id);
CREATE INDEX tracking_runs_job ON tracking_runs (workspace_id, job_run_id, id) WHERE job_run_id <> '';
CREATE INDEX tracking_runs_live ON tracking_runs (attempt_id) WHERE attempt_id <> '' AND state IN ('scheduled', 'running');
CREATE INDEX tracking_runs_deleted ON tracking_runs (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE TRIGGER changed BEFORE UPDATE ON tracking_runs FOR EACH ROW
    WHEN ((OLD.name, OLD.state, OLD.user_name, OLD.started_at, OLD.finished_at, OLD.deleted_at)
        IS DISTINCT FROM (NEW.name, NEW.state, NEW.user_name, NEW.started_at, NEW.finished_at, NEW.deleted_at))
    EXECUTE FUNCTION mark_changed();

CREATE TABLE tracking_parameters (
    workspace_id text COLLATE "C" NOT NULL,
    run          bigint NOT NULL,
    key          text COLLATE "C" NOT NULL,
    value        text NOT NULL,
    PRIMARY KEY (workspace_id, run, key),
    FOREIGN KEY (workspace_id, run) REFERENCES tracking_runs (workspace_id, number) ON DELETE CASCADE
);

CREATE TABLE tracking_tags (
    workspace_id text COLLATE "C" NOT NULL,
    run          bigint NOT NULL,
    key          text COLLATE "C" NOT NULL,
    value        text NOT NULL,
    PRIMARY KEY (workspace_id, run, key),
    FOREIGN KEY (workspace_id, run) REFERENCES tracking_runs (workspace_id, number) ON DELETE CASCADE
);

CREATE TABLE tracking_datasets (
    workspace_id text COLLATE "C" NOT NULL,
    number       bigint GENERATED ALWAYS AS IDENTITY,
    experiment   bigint NOT NULL,
    name         text NOT NULL,
    digest       text NOT NULL,
    source_type  text NOT NULL,
    source       text NOT NULL,
    schema       text NOT NULL,
    profile      text NOT NULL,
    PRIMARY KEY (workspace_id, number),
    UNIQUE (workspace_id, experiment, name, digest),
    FOREIGN KEY (workspace_id, experiment) REFERENCES experiments ON DELETE CASCADE
);

CREATE TABLE tracking_inputs (
    workspace_id text COLLATE "C" NOT NULL,
    run          bigint NOT NULL,
    dataset      bigint NOT NULL,
    tags         jsonb NOT NULL,
    PRIMARY KEY (workspace_id, run, dataset),
    FOREIGN KEY (workspace_id, run) REFERENCES tracking_runs (workspace_id, number) ON DELETE CASCADE,
    FOREIGN KEY (workspace_id, dataset) REFERENCES tracking_datasets ON DELETE CASCADE
);

-- The names of metrics. Points have a number in their place.
CREATE TABLE tracking_keys (
    workspace_id text COLLATE "C" NOT NULL REFERENCES workspaces,
    number       bigint GENERATED ALWAYS AS IDENTITY,
    key          text COLLATE "C" NOT NULL,
    PRIMARY KEY (workspace_id, number),
    UNIQUE (workspace_id, key)
);

-- A run's metrics: the latest point by step, time and value, and the number of points.
CREATE TABLE tracking_metrics (
    workspace_id text COLLATE "C" NOT NULL,
    run          bigint NOT NULL,
    key          bigint NOT NULL,
    step         bigint NOT NULL,
    at           bigint NOT NULL, -- milliseconds since 1970
    value        double precision NOT NULL,
    points       bigint NOT NULL,
    PRIMARY KEY (workspace_id, run, key)
) WITH (fillfactor = 80);

-- Points live as long as their run: a partition has those of a range of runs. No foreign key: its
-- check would cost each point more than the point itself.
CREATE TABLE tracking_points (
    workspace_id text COLLATE "C" NOT NULL,
    run          bigint NOT NULL,
    key          bigint NOT NULL,
    at           bigint NOT NULL,
    step         bigint NOT NULL,
    value        double precision NOT NULL,
    PRIMARY KEY (workspace_id, run, key, at, step, value)
) PARTITION BY RANGE (run);

-- How many points a workspace has: the sum of its rows. Each connection has a row of its own, so
-- that writers do not wait for each other.
CREATE TABLE tracking_usage (
    workspace_id text COLLATE "C" NOT NULL REFERENCES workspaces,
    part         int NOT NULL,
    points       bigint NOT NULL,
    PRIMARY KEY (workspace_id, part)
) WITH (fillfactor = 10);

-- Makes the partition of 10,000 runs that the run belongs to. A table is made and attached, and not
-- created in its place, which would wait for every reader.
-- +goose StatementBegin
CREATE FUNCTION create_point_partition(run bigint)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE part bigint := run / 10000; name text := format('tracking_points_%s', run / 10000);
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(7236403);
    IF to_regclass(name) IS NULL THEN
        EXECUTE format('CREATE TABLE %I (LIKE tracking_points INCLUDING STORAGE)', name);
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE tracking_points ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', name, part * 10000, (part + 1) * 10000);
    END IF;
END
$$;
-- +goose StatementEnd

-- Drops a partition without runs and points. It does not wait long for readers: writers would wait
-- behind it.
-- +goose StatementBegin
CREATE FUNCTION drop_point_partition(part bigint)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '500ms' AS $$
DECLARE name text := format('tracking_points_%s', part); empty boolean;
BEGIN
    PERFORM pg_advisory_xact_lock(7236403);
    IF to_regclass(name) IS NULL OR EXISTS (SELECT FROM tracking_runs WHERE number >= part * 10000 AND number < (part + 1) * 10000) THEN
        RETURN false;
    END IF;
    EXECUTE format('SELECT NOT EXISTS (SELECT FROM %I)', name) INTO empty;
    IF empty THEN
        EXECUTE format('DROP TABLE %I', name);
    END IF;
    RETURN empty;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION create_point_partition, drop_point_partition FROM PUBLIC;
GRANT EXECUTE ON FUNCTION drop_point_partition TO millpond_system;
GRANT EXECUTE ON FUNCTION create_point_partition TO millpond_app, millpond_system;
SELECT create_point_partition(0), create_point_partition(10000);

INSERT INTO experiment_numbers (workspace_id, last) SELECT workspace_id, 0 FROM workspaces;
INSERT INTO experiments (workspace_id, number, name, created_by_kind, created_by_id, created_by_name, created_at, updated_at)
    SELECT workspace_id, 0, 'Default', 'system', 'system', 'workspace', now(), now() FROM workspaces;

-- +goose StatementBegin
DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['experiments', 'experiment_numbers', 'experiment_tags', 'tracking_runs', 'tracking_parameters', 'tracking_tags',
        'tracking_datasets', 'tracking_inputs', 'tracking_keys', 'tracking_metrics', 'tracking_points', 'tracking_usage'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY app ON %I TO millpond_app USING (workspace_id = current_workspace()) WITH CHECK (workspace_id = current_workspace())', t);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO millpond_app', t);
    END LOOP;
END
$$;
-- +goose StatementEnd
CREATE POLICY system ON experiments TO millpond_system USING (true) WITH CHECK (true);
CREATE POLICY system ON experiment_numbers TO millpond_system USING (true) WITH CHECK (true);
CREATE POLICY system ON tracking_runs TO millpond_system USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON experiments, experiment_numbers TO millpond_system;
GRANT SELECT ON tracking_runs TO millpond_system;

-- +goose Down
DROP TABLE tracking_usage, tracking_points, tracking_metrics, tracking_keys, tracking_inputs, tracking_datasets, tracking_tags, tracking_parameters, tracking_runs,
    experiment_tags, experiment_numbers, experiments;
DROP FUNCTION create_point_partition, drop_point_partition;
