-- +goose Up

ALTER TABLE maintenance_runs ADD COLUMN changed xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX maintenance_runs_changed ON maintenance_runs (workspace_id, changed, id);
CREATE TRIGGER changed BEFORE UPDATE ON maintenance_runs FOR EACH ROW
    WHEN ((OLD.run_trigger, OLD.created_by_name, OLD.due_at, OLD.state, OLD.message, OLD.operations, OLD.finished_at)
        IS DISTINCT FROM (NEW.run_trigger, NEW.created_by_name, NEW.due_at, NEW.state, NEW.message, NEW.operations, NEW.finished_at))
    EXECUTE FUNCTION mark_changed();

-- A run shows its statements, so their changes are its own. An execution locks its statement, and
-- then the run. Maintenance locks the run first, and after it only held statements, which have no
-- execution.
-- +goose StatementBegin
CREATE FUNCTION mark_maintenance_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE public.maintenance_runs SET changed = pg_catalog.pg_current_xact_id()
        WHERE workspace_id = NEW.workspace_id AND table_id = NEW.table_id AND state IN ('queued', 'running');
    RETURN NULL;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION mark_maintenance_run FROM PUBLIC;

CREATE TRIGGER maintenance_changed AFTER UPDATE ON statements FOR EACH ROW
    WHEN (NEW.purpose = 'maintenance' AND (OLD.warehouse_id, OLD.query, OLD.not_before, OLD.state, OLD.failure, OLD.started_at, OLD.finished_at)
        IS DISTINCT FROM (NEW.warehouse_id, NEW.query, NEW.not_before, NEW.state, NEW.failure, NEW.started_at, NEW.finished_at))
    EXECUTE FUNCTION mark_maintenance_run();

-- +goose Down
DROP TRIGGER maintenance_changed ON statements;
DROP FUNCTION mark_maintenance_run;
DROP TRIGGER changed ON maintenance_runs;
ALTER TABLE maintenance_runs DROP COLUMN changed;
