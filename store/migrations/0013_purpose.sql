-- +goose Up

-- Statements that the platform runs for a purpose of its own: maintenance of a table.
ALTER TABLE statements
    ADD COLUMN purpose text NOT NULL DEFAULT '' CHECK (purpose IN ('', 'maintenance')),
    ADD COLUMN table_id text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN not_before timestamptz;

UPDATE statements SET purpose = 'maintenance' WHERE created_by_kind = 'system' AND created_by_name = 'maintenance';
UPDATE statements s SET table_id = r.table_id FROM maintenance_runs r, jsonb_array_elements(r.operations) o
    WHERE s.workspace_id = r.workspace_id AND s.id = o ->> 'statement' AND s.purpose = 'maintenance';

-- An operation whose statement was not submitted yet begins again.
UPDATE maintenance_runs SET state = 'queued', operations = operations - -1, warehouse_id = '' WHERE state = 'running' AND statement_id = '';

-- A list reads only the statements that it shows.
CREATE INDEX statements_purpose ON statements (workspace_id, purpose, id);
DROP INDEX statements_warehouse;
CREATE INDEX statements_warehouse ON statements (workspace_id, warehouse_id, purpose, id);

-- +goose Down
DROP INDEX statements_purpose, statements_warehouse;
CREATE INDEX statements_warehouse ON statements (workspace_id, warehouse_id, id);
ALTER TABLE statements DROP COLUMN purpose, DROP COLUMN table_id, DROP COLUMN not_before;
