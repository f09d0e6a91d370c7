-- +goose Up

-- Facts about a statement for a server's stop. A row from an older server counts as sent and
-- committed: that promises nothing.
ALTER TABLE statements
    ADD COLUMN idempotency_key text NOT NULL DEFAULT '',
    ADD COLUMN detached boolean NOT NULL DEFAULT false, -- no caller waits for its end on a connection
    ADD COLUMN sent boolean NOT NULL DEFAULT true, -- an engine has received it, or may have
    ADD COLUMN committed boolean NOT NULL DEFAULT true; -- it changed the catalog

-- +goose Down
ALTER TABLE statements DROP COLUMN idempotency_key, DROP COLUMN detached, DROP COLUMN sent, DROP COLUMN committed;
