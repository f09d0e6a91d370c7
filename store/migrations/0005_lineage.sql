-- +goose Up

-- Each entry of lineage knows its process: the task of a job that a run or a statement belongs to, else the statement itself, or a job outside. All runs of one
-- task are one process, so that a graph has a node for it however often it ran. run_id and task_key are empty where there is no run.
ALTER TABLE lineage
    ADD COLUMN run_id    text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN task_key  text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN process   text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN adhoc     boolean NOT NULL DEFAULT false, -- the process is a statement of no run
    ADD COLUMN table_key text COLLATE "C" NOT NULL DEFAULT '', -- database.schema.name as names are compared
    ADD COLUMN source    text COLLATE "C" NOT NULL DEFAULT ''; -- of OpenLineage: its run's id; empty for what the catalog saw

UPDATE lineage l SET run_id = s.run_id, task_key = s.task_key, process = s.process, adhoc = s.adhoc, table_key = lower(l.database || '.' || l.schema || '.' || l.name)
FROM (SELECT e.workspace_id, e.actor_kind, e.actor_id, COALESCE(r.id, '') AS run_id, COALESCE(a.task_key, t.task_key, '') AS task_key, r.id IS NULL AS adhoc,
        COALESCE(r.job_id || COALESCE('/' || NULLIF(COALESCE(a.task_key, t.task_key), ''), ''), e.actor_id) AS process
    FROM (SELECT DISTINCT workspace_id, actor_kind, actor_id FROM lineage) e
    LEFT JOIN attempts a ON e.actor_kind = 'run' AND a.workspace_id = e.workspace_id AND a.id = e.actor_id
    LEFT JOIN statements t ON e.actor_kind = 'statement' AND t.workspace_id = e.workspace_id AND t.id = e.actor_id
    LEFT JOIN runs r ON r.workspace_id = e.workspace_id AND r.id = COALESCE(a.run_id, t.run_id)) s
WHERE l.workspace_id = s.workspace_id AND l.actor_kind = s.actor_kind AND l.actor_id = s.actor_id;

-- A graph goes from tables to processes and from processes to tables; each neighbour is one step in an index, however often it read or wrote.
CREATE INDEX lineage_by_table ON lineage (workspace_id, table_id, direction, process, at) WHERE NOT adhoc;
CREATE INDEX lineage_adhoc ON lineage (workspace_id, table_id, direction, at) WHERE adhoc;
CREATE INDEX lineage_by_process ON lineage (workspace_id, process, direction, table_id, at);
CREATE INDEX lineage_by_run ON lineage (workspace_id, run_id, at) WHERE run_id <> '';
CREATE INDEX lineage_by_name ON lineage (workspace_id, table_key, at);
GRANT UPDATE (columns), DELETE ON lineage TO millpond_app;

-- Datasets and jobs that are not ours, as OpenLineage names them.
CREATE TABLE lineage_externals (
    workspace_id text COLLATE "C" NOT NULL REFERENCES workspaces,
    id           text COLLATE "C" NOT NULL, -- made of the kind, the namespace and the name
    kind         text NOT NULL CHECK (kind IN ('dataset', 'job')),
    namespace    text NOT NULL,
    name         text NOT NULL,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, id)
);

-- Runs of OpenLineage that have failed: what is said later that they write, they have not written.
CREATE TABLE lineage_retracted (
    workspace_id text COLLATE "C" NOT NULL REFERENCES workspaces,
    actor_kind   text COLLATE "C" NOT NULL,
    actor_id     text COLLATE "C" NOT NULL,
    source       text COLLATE "C" NOT NULL,
    at           timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, actor_kind, actor_id, source)
);

-- What was told of a table before it was used, without a snapshot, gives way to what was seen of it, or told with one. Statements tell nothing.
-- +goose StatementBegin
CREATE FUNCTION lineage_seen() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    told text[];
BEGIN
    DELETE FROM lineage WHERE workspace_id = NEW.workspace_id AND actor_kind = NEW.actor_kind AND actor_id = NEW.actor_id AND direction = NEW.direction
        AND table_id = NEW.table_id AND snapshot_id = 0 AND source <> '' RETURNING columns INTO told;
    NEW.columns := COALESCE(NEW.columns, told);
    RETURN NEW;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION lineage_seen FROM PUBLIC;
CREATE TRIGGER lineage_seen BEFORE INSERT ON lineage FOR EACH ROW
    WHEN (NEW.actor_kind <> 'statement' AND (NEW.source = '' OR NEW.snapshot_id <> 0)) EXECUTE FUNCTION lineage_seen();

-- Whether all tables that a statement names were seen by the catalog: known when it has succeeded.
ALTER TABLE statements ADD COLUMN lineage text NOT NULL DEFAULT '' CHECK (lineage IN ('', 'none', 'resolved', 'unresolved'));
CREATE INDEX statements_lineage ON statements (workspace_id, finished_at, lineage) WHERE lineage <> '';

-- What is to be told to a receiver of OpenLineage: written by the transaction that changes a state, removed when it was received.
CREATE TABLE lineage_outbox (
    workspace_id text COLLATE "C" NOT NULL REFERENCES workspaces,
    seq          bigint GENERATED ALWAYS AS IDENTITY,
    kind         text NOT NULL CHECK (kind IN ('run', 'attempt', 'statement')),
    subject_id   text COLLATE "C" NOT NULL,
    status       text NOT NULL, -- running for its start, else how it ended
    at           timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, seq)
);
CREATE INDEX lineage_outbox_seq ON lineage_outbox (seq);

-- Until when anybody wants to be told. Without a row nothing is written to the outbox.
CREATE TABLE lineage_receiver (
    one          boolean PRIMARY KEY DEFAULT true CHECK (one),
    wanted_until timestamptz NOT NULL
);

-- +goose StatementBegin
DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['lineage_externals', 'lineage_retracted', 'lineage_outbox']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY app ON %I TO millpond_app USING (workspace_id = current_workspace()) WITH CHECK (workspace_id = current_workspace())', t);
        EXECUTE format('CREATE POLICY system ON %I TO millpond_system USING (true) WITH CHECK (true)', t);
    END LOOP;
END
$$;
-- +goose StatementEnd
GRANT SELECT, INSERT ON lineage_externals, lineage_retracted TO millpond_app;
GRANT INSERT ON lineage_outbox TO millpond_app;
GRANT SELECT ON lineage_receiver TO millpond_app;
GRANT SELECT, DELETE ON lineage_outbox TO millpond_system;
GRANT SELECT, INSERT, UPDATE ON lineage_receiver TO millpond_system;

-- A trigger, because a state changes in many places and none may be forgotten. What never ran is told to have started too: a receiver expects that of what ends.
-- +goose StatementBegin
CREATE FUNCTION lineage_transition() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    before text;
    after  text;
BEGIN
    IF NOT EXISTS (SELECT FROM lineage_receiver WHERE wanted_until > now()) THEN
        RETURN NULL;
    END IF;
    IF TG_ARGV[0] = 'statement' THEN
        before := OLD.state;
        after := NEW.state;
    ELSE
        before := OLD.status;
        after := NEW.status;
    END IF;
    IF after IN ('pending', 'starting', 'queued') THEN -- a run that is repaired
        RETURN NULL;
    END IF;
    IF before IN ('pending', 'starting', 'queued') THEN
        INSERT INTO lineage_outbox (workspace_id, kind, subject_id, status, at)
            VALUES (NEW.workspace_id, TG_ARGV[0], NEW.id, 'running', COALESCE(NEW.started_at, NEW.created_at));
    END IF;
    IF after <> 'running' THEN
        INSERT INTO lineage_outbox (workspace_id, kind, subject_id, status, at)
            VALUES (NEW.workspace_id, TG_ARGV[0], NEW.id, after, COALESCE(NEW.finished_at, now()));
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION lineage_transition FROM PUBLIC;
CREATE TRIGGER lineage_outbox AFTER UPDATE OF status ON runs FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION lineage_transition('run');
CREATE TRIGGER lineage_outbox AFTER UPDATE OF status ON attempts FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION lineage_transition('attempt');
CREATE TRIGGER lineage_outbox AFTER UPDATE OF state ON statements FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION lineage_transition('statement');

-- +goose Down
DROP TRIGGER lineage_outbox ON statements;
DROP TRIGGER lineage_outbox ON attempts;
DROP TRIGGER lineage_outbox ON runs;
DROP FUNCTION lineage_transition;
DROP TRIGGER lineage_seen ON lineage;
DROP FUNCTION lineage_seen;
DROP TABLE lineage_receiver, lineage_outbox, lineage_retracted, lineage_externals;
ALTER TABLE statements DROP COLUMN lineage;
REVOKE UPDATE (columns), DELETE ON lineage FROM millpond_app;
ALTER TABLE lineage DROP COLUMN run_id, DROP COLUMN task_key, DROP COLUMN process, DROP COLUMN adhoc, DROP COLUMN table_key, DROP COLUMN source;
