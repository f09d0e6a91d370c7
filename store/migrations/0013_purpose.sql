-- +goose Up

-- Statements that the platform runs for a purpose of its own: maintenance of a table. A held one
-- has no warehouse yet, and no server adopts it.
ALTER TABLE statements
    ADD COLUMN purpose text NOT NULL DEFAULT '' CHECK (purpose IN ('', 'maintenance')),
    ADD COLUMN table_id text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN not_before timestamptz;

-- An operation whose statement was not submitted yet begins again.
UPDATE maintenance_runs SET state = 'queued', operations = operations - -1, warehouse_id = '' WHERE state = 'running' AND statement_id = '';

-- An operation whose statement was refused had none. Its id comes from the run's.
UPDATE maintenance_runs r SET operations = (
        SELECT jsonb_agg(CASE o ->> 'statement' WHEN '' THEN jsonb_set(o, '{statement}', to_jsonb('stm_' || substr(r.id, 5, 24) || lpad(n::text, 2, '0'))) ELSE o END ORDER BY n)
        FROM jsonb_array_elements(r.operations) WITH ORDINALITY e (o, n))
    WHERE r.operations @> '[{"statement": ""}]';
INSERT INTO statements (workspace_id, id, warehouse_id, query, database_name, schema_name, created_by_kind, created_by_id, created_by_name, role, created_at, state, started_at,
        finished_at, fault, failure, replica, detached, sent, committed)
    SELECT r.workspace_id, o ->> 'statement', o ->> 'warehouse', o ->> 'query', 'lake', 'public', 'system', 'system', 'maintenance', 'editor', (o ->> 'started_at')::timestamptz,
        o ->> 'state', NULL, (o ->> 'finished_at')::timestamptz, COALESCE(o ->> 'fault', ''), COALESCE(o ->> 'message', ''), '', true, false, false
    FROM maintenance_runs r, jsonb_array_elements(r.operations) o ON CONFLICT DO NOTHING;

UPDATE statements SET purpose = 'maintenance' WHERE created_by_kind = 'system' AND created_by_name = 'maintenance';
UPDATE statements s SET table_id = r.table_id, not_before = (o ->> 'started_at')::timestamptz
    FROM maintenance_runs r, jsonb_array_elements(r.operations) o WHERE s.workspace_id = r.workspace_id AND s.id = o ->> 'statement' AND s.purpose = 'maintenance';

-- What is still to do becomes held statements. The first kind of a running run is the one that
-- runs.
UPDATE maintenance_runs SET todo = todo[2:] WHERE state = 'running';
INSERT INTO statements (workspace_id, id, warehouse_id, query, database_name, schema_name, timeout_ms, byte_limit, created_by_kind, created_by_id, created_by_name, role, created_at,
        state, message, replica, detached, sent, committed, purpose, table_id, not_before)
    SELECT r.workspace_id, 'stm_' || substr(r.id, 5, 24) || (50 + n), '', 'ALTER TABLE ' || quote_ident(r.database) || '.' || quote_ident(r.schema) || '.' || quote_ident(r.name)
            || ' EXECUTE ' || CASE kind WHEN 'compact' THEN 'optimize' WHEN 'expire' THEN 'expire_snapshots' ELSE 'remove_orphan_files' END,
        'lake', 'public', 6 * 3600 * 1000, 8::bigint << 30, 'system', 'system', 'maintenance', 'editor', r.created_at, 'queued',
        CASE WHEN r.state = 'queued' AND n = 1 THEN r.message ELSE 'Waits for the earlier operations on its table.' END, '', true, false, false, 'maintenance', r.table_id,
        CASE WHEN r.state = 'queued' AND n = 1 THEN r.look_at END
    FROM maintenance_runs r, unnest(r.todo) WITH ORDINALITY t (kind, n) WHERE r.state IN ('queued', 'running');
UPDATE maintenance_runs r SET operations = operations || (
        SELECT jsonb_agg(jsonb_build_object('kind', kind, 'statement', 'stm_' || substr(r.id, 5, 24) || (50 + n)) ORDER BY n) FROM unnest(r.todo) WITH ORDINALITY t (kind, n))
    WHERE state IN ('queued', 'running') AND todo <> '{}';

-- The statement of an operation has the rest.
UPDATE maintenance_runs SET operations = (
        SELECT jsonb_agg(o - '{query,warehouse,state,started_at,finished_at,seconds,fault,message}'::text[] ORDER BY n) FROM jsonb_array_elements(operations) WITH ORDINALITY e (o, n))
    WHERE operations <> '[]';
DROP INDEX maintenance_runs_queued;
ALTER TABLE maintenance_runs DROP COLUMN todo, DROP COLUMN statement_id, DROP COLUMN warehouse_id, DROP COLUMN tries, DROP COLUMN look_at, DROP COLUMN started_at;

-- A list reads only the statements that it shows. Servers look for lost statements among those that
-- are not held, and maintenance for held ones: those to cancel, then those that may start.
CREATE INDEX statements_purpose ON statements (workspace_id, purpose, id);
CREATE INDEX statements_held ON statements (workspace_id, cancel_requested_at, not_before, id) WHERE state = 'queued' AND warehouse_id = '';
DROP INDEX statements_warehouse, statements_replica;
CREATE INDEX statements_warehouse ON statements (workspace_id, warehouse_id, purpose, id);
CREATE INDEX statements_replica ON statements (replica) WHERE state IN ('queued', 'running') AND warehouse_id <> '';

-- A held statement that is withdrawn never ran, and has no event of lineage.
DROP TRIGGER lineage_outbox ON statements;
CREATE TRIGGER lineage_outbox AFTER UPDATE OF state ON statements FOR EACH ROW WHEN (OLD.state <> NEW.state AND NEW.warehouse_id <> '') EXECUTE FUNCTION lineage_transition('statement');

-- +goose Down
DROP TRIGGER lineage_outbox ON statements;
CREATE TRIGGER lineage_outbox AFTER UPDATE OF state ON statements FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION lineage_transition('statement');
DROP INDEX statements_purpose, statements_held, statements_warehouse, statements_replica;
CREATE INDEX statements_warehouse ON statements (workspace_id, warehouse_id, id);
CREATE INDEX statements_replica ON statements (replica) WHERE state IN ('queued', 'running');
DELETE FROM statements WHERE state = 'queued' AND warehouse_id = '';
ALTER TABLE statements DROP COLUMN purpose, DROP COLUMN table_id, DROP COLUMN not_before;
UPDATE maintenance_runs SET state = 'skipped', message = 'The platform returned to an older version.', finished_at = now() WHERE state IN ('queued', 'running');
UPDATE maintenance_runs r SET operations = COALESCE((
        SELECT jsonb_agg(o || jsonb_build_object('query', s.query, 'warehouse', s.warehouse_id, 'state', s.state, 'started_at', s.created_at, 'finished_at', s.finished_at,
            'seconds', COALESCE(extract(epoch FROM s.finished_at - s.started_at), 0), 'fault', s.fault, 'message', s.failure) ORDER BY n)
        FROM jsonb_array_elements(r.operations) WITH ORDINALITY e (o, n) JOIN statements s ON s.workspace_id = r.workspace_id AND s.id = o ->> 'statement' AND s.warehouse_id <> ''), '[]');
ALTER TABLE maintenance_runs
    ADD COLUMN todo text[] NOT NULL DEFAULT '{}',
    ADD COLUMN statement_id text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN warehouse_id text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN tries int NOT NULL DEFAULT 0,
    ADD COLUMN look_at timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN started_at timestamptz;
CREATE INDEX maintenance_runs_queued ON maintenance_runs (workspace_id, look_at) WHERE state = 'queued';
