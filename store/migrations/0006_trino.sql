-- +goose Up

-- A warehouse that writes with Trino has one node or several, and starts it at its first write or with itself. Those from before write with DuckDB.
ALTER TABLE machines
    ADD COLUMN nodes       int NOT NULL DEFAULT 1 CHECK (nodes BETWEEN 1 AND 16),
    ADD COLUMN trino_start text NOT NULL DEFAULT '' CHECK (trino_start IN ('', 'first_write', 'with_warehouse')); -- empty where it is no warehouse
UPDATE machines SET trino_start = 'first_write' WHERE kind = 'warehouse';

-- +goose Down
ALTER TABLE machines DROP COLUMN nodes, DROP COLUMN trino_start;
