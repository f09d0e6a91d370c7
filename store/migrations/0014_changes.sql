-- +goose Up

-- The transaction that last changed what readers see of a row. Times of heartbeats and of the
-- platform's own checks do not count.
-- +goose StatementBegin
CREATE FUNCTION mark_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.changed := pg_catalog.pg_current_xact_id();
    RETURN NEW;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION mark_changed FROM PUBLIC;

ALTER TABLE runs ADD COLUMN changed xid8 NOT NULL DEFAULT pg_current_xact_id();
ALTER TABLE statements ADD COLUMN changed xid8 NOT NULL DEFAULT pg_current_xact_id();
ALTER TABLE machines ADD COLUMN changed xid8 NOT NULL DEFAULT pg_current_xact_id();
ALTER TABLE agents ADD COLUMN changed xid8 NOT NULL DEFAULT pg_current_xact_id();

-- A workspace has few machines and agents: its own part of the primary key finds them.
CREATE INDEX runs_changed ON runs (workspace_id, changed, id);
CREATE INDEX statements_changed ON statements (workspace_id, changed, id);

CREATE TRIGGER changed BEFORE UPDATE ON runs FOR EACH ROW
    WHEN ((OLD.status, OLD.message, OLD.started_at, OLD.finished_at, OLD.cancel_requested_at)
        IS DISTINCT FROM (NEW.status, NEW.message, NEW.started_at, NEW.finished_at, NEW.cancel_requested_at))
    EXECUTE FUNCTION mark_changed();

CREATE TRIGGER changed BEFORE UPDATE ON statements FOR EACH ROW
    WHEN ((OLD.warehouse_id, OLD.query, OLD.not_before, OLD.state, OLD.message, OLD.progress, OLD.kind, OLD.engine, OLD.routing_reason, OLD.schema_message IS NULL, OLD.rows, OLD.chunks,
            OLD.started_at, OLD.finished_at, OLD.cancel_requested_at)
        IS DISTINCT FROM (NEW.warehouse_id, NEW.query, NEW.not_before, NEW.state, NEW.message, NEW.progress, NEW.kind, NEW.engine, NEW.routing_reason, NEW.schema_message IS NULL, NEW.rows, NEW.chunks,
            NEW.started_at, NEW.finished_at, NEW.cancel_requested_at))
    EXECUTE FUNCTION mark_changed();

-- The engines of a machine are in its agent's row: whoever writes them marks the machine.
CREATE TRIGGER changed BEFORE UPDATE ON machines FOR EACH ROW
    WHEN ((OLD.name, OLD.flavor, OLD.image, OLD.image_ref, OLD.auto_stop, OLD.slots, OLD.write_engine, OLD.nodes, OLD.trino_start, OLD.last_used_at,
            OLD.desired, OLD.state, OLD.message, OLD.state_since, OLD.incarnation, OLD.restarts, OLD.idle_since)
        IS DISTINCT FROM (NEW.name, NEW.flavor, NEW.image, NEW.image_ref, NEW.auto_stop, NEW.slots, NEW.write_engine, NEW.nodes, NEW.trino_start, NEW.last_used_at,
            NEW.desired, NEW.state, NEW.message, NEW.state_since, NEW.incarnation, NEW.restarts, NEW.idle_since))
    EXECUTE FUNCTION mark_changed();

CREATE TRIGGER changed BEFORE UPDATE ON agents FOR EACH ROW
    WHEN ((OLD.name, OLD.version, OLD.hostname, OLD.os, OLD.arch, OLD.slots, OLD.session)
        IS DISTINCT FROM (NEW.name, NEW.version, NEW.hostname, NEW.os, NEW.arch, NEW.slots, NEW.session))
    EXECUTE FUNCTION mark_changed();

-- +goose Down
DROP TRIGGER changed ON agents;
DROP TRIGGER changed ON machines;
DROP TRIGGER changed ON statements;
DROP TRIGGER changed ON runs;
DROP FUNCTION mark_changed;
ALTER TABLE agents DROP COLUMN changed;
ALTER TABLE machines DROP COLUMN changed;
ALTER TABLE statements DROP COLUMN changed;
ALTER TABLE runs DROP COLUMN changed;
